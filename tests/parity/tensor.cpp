// SPDX-License-Identifier: Apache-2.0
/// Layers that tensor ranks divide: at one number of tensor ranks all stages of ZeRO, buckets, pipelines and schedules
/// train the same, bit for bit, and whole parameters have equal replicas. Other numbers of tensor ranks divide sums of
/// products differently: norms and losses agree up to rounding.
#include "tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/sanitized.hpp"

namespace zeroth::testing {
namespace {

using Catch::Matchers::Contains;

constexpr Types types_of_parts[] = {fp32_types, bf16_types, fp16_types, bf16_masters};

std::string file_of(Types const& types, int stage, int tensor, int pipeline = 1, std::string const& more = "",
                    char const* reduce = "every_micro_step") {
  return file(types, stage, 4, reduce, movements[stage],
              fmt::format(R"(, "mesh": {{"tensor": {}, "pipeline": {}}}{})", tensor, pipeline, more));
}

/// Trains on `data` x `tensor` x `pipeline` ranks. Requires that all have the same results except memory figures, and
/// use the planned memory.
Trained train_on(int data, int tensor, int pipeline, std::string const& text, DividedOptions const& options) {
  auto const config = Config::from_json(text);
  auto const world = data * tensor * pipeline;
  std::vector<Trained> all(static_cast<std::size_t>(world));
  auto const outcome = run_job(
      world, [&](Job& job) { all[static_cast<std::size_t>(job.rank())] = train_divided(job, config, options); });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : all) {
    REQUIRE(bits_of(each) == bits_of(all.front()));
    REQUIRE(each.planned == each.peak);
  }
  return all.front();
}

/// Leaves most types out under a sanitizer, which tests code, not bits. Those in fp16 have masters and an overflow.
bool is_left_out(Types const& types) { return sanitized && types.keys != fp16_types.keys; }

DividedOptions options_of(Types const& types, bool sequence) {
  return {.sequence = sequence, .overflow_at_step = types.keys == fp16_types.keys ? 2 : 0};
}

/// Largest difference of two lists, relative to the largest value.
double distance(std::vector<float> const& a, std::vector<float> const& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  double apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
    apart = std::max(apart, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return apart / largest;
}

std::vector<float> norms_of(Trained const& trained) {
  std::vector<float> norms;
  for (auto const& report : trained.reports) {
    norms.push_back(report.grad_norm);
  }
  return norms;
}

std::vector<float> losses_of(Trained const& trained) {
  std::vector<float> losses;
  for (auto const& report : trained.reports) {
    losses.push_back(report.loss);
  }
  return losses;
}

}  // namespace

TEST_CASE("with tensor ranks every ZeRO stage and every replica train the same") {
  auto const types = GENERATE(from_range(std::begin(types_of_parts), std::end(types_of_parts)));
  if (is_left_out(types)) {
    return;
  }
  for (int const tensor : {1, 2, 4}) {
    for (bool const sequence : {false, true}) {
      auto const options = options_of(types, sequence);
      auto const base = train_on(2, tensor, 1, file_of(types, 0, tensor), options);
      REQUIRE(base.reports.size() == 4);
      REQUIRE(base.reports[1].skipped == (options.overflow_at_step == 2));
      REQUIRE(base.reports.front().grad_norm > 0.5F);  // so that it is clipped
      for (int stage = 1; stage <= 3; ++stage) {
        static Sample sample{11, 2};
        if (sample.leaves_out()) {
          continue;
        }
        INFO(fmt::format("{}, {} tensor ranks, sequence {}, ZeRO {}", types.name, tensor, sequence, stage));
        auto const* const more = stage == 3 ? R"(, "poison": true, "check": true)" : "";
        REQUIRE(bits_of(train_on(2, tensor, 1, file_of(types, stage, tensor, 1, more), options)) == bits_of(base));
      }
    }
  }
}

TEST_CASE("Muon: matrices that tensor ranks divide are made orthogonal whole, at every stage and in pipelines") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types);
  if (is_left_out(types)) {
    return;
  }
  auto const text = [&](int stage, int tensor, int pipeline = 1) {
    return file(types, stage, 4, "every_micro_step", movements[stage],
                fmt::format(R"(, "mesh": {{"tensor": {}, "pipeline": {}}})", tensor, pipeline),
                R"("type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1})");
  };
  std::vector<float> norms;
  for (int const tensor : {1, 2, 4}) {
    auto const options = options_of(types, tensor == 2);
    auto const base = train_on(2, tensor, 1, text(0, tensor), options);
    for (int stage = 1; stage <= 3; ++stage) {
      INFO(fmt::format("{}, {} tensor ranks, ZeRO {}", types.name, tensor, stage));
      REQUIRE(bits_of(train_on(2, tensor, 1, text(stage, tensor), options)) == bits_of(base));
      if (tensor < 4) {
        REQUIRE(bits_of(train_on(2, tensor, 2, text(stage, tensor, 2), options)) == bits_of(base));
      }
    }
    if (types.name == fp32_types.name) {
      // Directions are rounded to bf16, so small differences of sums become larger ones.
      norms = norms.empty() ? norms_of(base) : norms;
      CHECK(distance(norms, norms_of(base)) < 0.01);
    }
  }
}

TEST_CASE("gradients that are reduced once, or added on the rank, are summed over tensor ranks once") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_summed_in_fp32);
  if (sanitized && types.name != bf16_summed_in_fp32.name) {
    return;
  }
  auto const text = [&](int stage) { return file_of(types, stage, 2, 1, "", "last_micro_step"); };
  auto const base = train_on(2, 2, 1, text(0), {.sequence = true});
  for (int stage = 1; stage <= 3; ++stage) {
    INFO(fmt::format("{}, ZeRO {}", types.name, stage));
    REQUIRE(bits_of(train_on(2, 2, 1, text(stage), {.sequence = true})) == bits_of(base));
  }
}

TEST_CASE("groups of data ranks work with tensor ranks") {
  auto const with = [&](int stage, std::string const& more) { return file_of(fp32_types, stage, 2, 1, more); };
  auto const base = train_on(4, 2, 1, with(0, ""), {.sequence = true});
  auto const config = Config::from_json(with(3, "")).with(R"({"zero_optimization": {"zero_hpz_partition_size": 2}})");
  std::vector<Trained> all(8);
  REQUIRE(messages_of(run_job(8, [&](Job& job) {
            all[static_cast<std::size_t>(job.rank())] = train_divided(job, config, {.sequence = true});
          })) == "");
  for (auto const& each : all) {
    REQUIRE(bits_of(each) == bits_of(base));
  }
}

TEST_CASE("a pipeline of stages that tensor ranks divide trains like one stage") {
  for (bool const sequence : {false, true}) {
    for (auto const& types : sampled<Types>({bf16_masters, fp32_types}, 2)) {
      auto const base = train_on(2, 2, 1, file_of(types, 0, 2), {.sequence = sequence});
      for (int stage = 0; stage <= 3; ++stage) {
        static Sample sample{7, 1};
        if (sample.leaves_out()) {
          continue;
        }
        INFO(fmt::format("{}, sequence {}, ZeRO {}", types.name, sequence, stage));
        REQUIRE(bits_of(train_on(2, 2, 2, file_of(types, stage, 2, 2), {.sequence = sequence})) == bits_of(base));
      }
    }
  }
}

TEST_CASE("stages that tensor ranks divide sum gradients of shared parameters like one stage") {
  auto const types = GENERATE(from_range(std::begin(types_of_parts), std::end(types_of_parts)));
  if (is_left_out(types)) {
    return;
  }
  constexpr auto* const apart = R"(, "tied_gradients": "apart", "check": true)";
  for (bool const sequence : {false, true}) {
    auto options = options_of(types, sequence);
    options.tied = true;
    auto const base = train_on(2, 2, 1, file_of(types, 0, 2, 1, apart), options);
    REQUIRE(base.reports[1].skipped == (options.overflow_at_step == 2));
    for (int const pipeline : {1, 2, 4}) {
      for (int stage = pipeline == 1 ? 1 : 0; stage <= 3; ++stage) {
        static Sample sample{11, 2};
        if (sample.leaves_out()) {
          continue;
        }
        INFO(fmt::format("{}, sequence {}, {} stages, ZeRO {}", types.name, sequence, pipeline, stage));
        REQUIRE(bits_of(train_on(2, 2, pipeline, file_of(types, stage, 2, pipeline, apart), options)) == bits_of(base));
      }
    }
    auto const one = train_on(2, 1, 1, file_of(types, 0, 1, 1, apart), options);
    auto const near = types.keys == fp32_types.keys ? 1e-6 : 2e-2;
    CHECK(distance(norms_of(one), norms_of(base)) < near);
    CHECK(distance(losses_of(one), losses_of(base)) < near);
  }
}

TEST_CASE("another number of tensor ranks has the same norms and losses to rounding") {
  auto const one = train_on(2, 1, 1, file_of(fp32_types, 1, 1), {});
  for (int const tensor : {2, 4}) {
    for (bool const sequence : {false, true}) {
      INFO(fmt::format("{} tensor ranks, sequence {}", tensor, sequence));
      auto const other = train_on(2, tensor, 1, file_of(fp32_types, 1, tensor), {.sequence = sequence});
      CHECK(distance(norms_of(one), norms_of(other)) < 1e-6);
      CHECK(distance(losses_of(one), losses_of(other)) < 1e-6);
      CHECK(distance(one.evaluations, other.evaluations) < 2e-6);
      CHECK(distance(one.parameters, other.parameters) < 2e-5);
    }
  }
}

TEST_CASE("with LAMB the norms of a parameter that tensor ranks divide are those of all of it") {
  auto const trained = [](int tensor, int stage) {
    auto const mesh = fmt::format(R"(, "mesh": {{"tensor": {}}})", tensor);
    return train_on(
        2, tensor, 1,
        file(fp32_types, stage, 4, "every_micro_step", movements[stage], mesh,
             R"("type": "Lamb", "params": {"lr": 0.05, "weight_decay": 0.1, "max_coeff": 100, "min_coeff": 0.001})"),
        {});
  };
  auto const one = trained(1, 1);
  for (int const tensor : {2, 4}) {
    auto const other = trained(tensor, 1);
    INFO(fmt::format("{} tensor ranks", tensor));
    CHECK(distance(losses_of(one), losses_of(other)) < 1e-6);
    CHECK(distance(one.parameters, other.parameters) < 2e-5);
    CHECK(bits_of(trained(tensor, 0)) == bits_of(other));
    CHECK(bits_of(trained(tensor, 3)) == bits_of(other));
  }
}

TEST_CASE("a model and a mesh of different tensor ranks are refused, and so is a mesh that does not divide the ranks") {
  auto const config = Config::from_json(file_of(fp32_types, 1, 2));
  auto const wrong = run_job(2, [&](Job& job) {
    Mesh mesh{job, config};
    Model const model{1};
    AnyEngine const engine{mesh, model, config};
  });
  CHECK_THAT(message_of(wrong[1]), Contains("the model was made for tensor rank 0 of 1, but the engine is on tensor "
                                            "rank 1 of 2: pass Mesh::tensor_part() to Model"));
  auto const without = run_job(2, [&](Job& job) {
    Model const model{1, {job.rank(), 2}};
    AnyEngine const engine{job, model, config};
  });
  CHECK_THAT(message_of(without[0]),
             Contains("zeroth.mesh.tensor is 2, but the engine was not built on a zeroth::Mesh: build it on one"));
  auto const three = run_job(3, [&](Job& job) { Mesh const mesh{job, config}; });
  CHECK_THAT(message_of(three[0]), Contains("zeroth.mesh.tensor is 2, which does not "
                                            "divide 3 ranks; allowed: 1, 3"));
}

TEST_CASE("ranks of a mesh have coordinates along three axes") {
  auto const config = Config::from_json(file_of(fp32_types, 1, 2, 2));
  struct Seen {
    Mesh::Place place{};
    int data = 0, tensor = 0, data_rank = 0, tensor_rank = 0;
    TensorPart part;
  };
  std::vector<Seen> all(12);
  auto const outcome = run_job(12, [&](Job& job) {
    Mesh mesh{job, config};
    all[static_cast<std::size_t>(job.rank())] = {mesh.place(),       mesh.data().world(),  mesh.tensor().world(),
                                                 mesh.data().rank(), mesh.tensor().rank(), mesh.tensor_part()};
  });
  REQUIRE(messages_of(outcome) == "");
  for (int rank = 0; rank < 12; ++rank) {
    auto const& seen = all[static_cast<std::size_t>(rank)];
    CHECK((seen.place.stage * 3 + seen.place.data) * 2 + seen.place.tensor == rank);
    CHECK(seen.data == 3);
    CHECK(seen.tensor == 2);
    CHECK(seen.data_rank == seen.place.data);
    CHECK(seen.tensor_rank == seen.place.tensor);
    CHECK(seen.part == TensorPart{seen.place.tensor, 2});
  }
}

}  // namespace zeroth::testing
