// SPDX-License-Identifier: Apache-2.0
/// Ranks whose copies of one model have diverged: all ranks are told the unit and the rank.
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/safetensors_file.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// Builds a model whose second unit starts with `value` on rank `job.rank()`.
Outcome built_with(int world, int stage, std::function<float(int rank, std::int64_t element)> const& value,
                   SmallFile const& file = {}) {
  return run_job(world, [&](Job& job) {
    Model model;
    auto const of_rank = PerElement{[&, rank = job.rank()](std::int64_t element) { return value(rank, element); }};
    static_cast<void>(model.param(model.unit("first"), "a", {200}, Normal{1}));
    static_cast<void>(model.param(model.unit("second"), "b", {300}, of_rank));
    Engine<float> const engine{job, model, small_config(stage, file)};
  });
}

/// Checks that every rank ends with the same error.
void check_all(Outcome const& outcome, std::string const& says) {
  for (auto const& error : outcome) {
    CHECK(holds<PeerError>(error));
    CHECK_THAT(message_of(error), Contains(says));
  }
}

/// Trains `steps` steps of one micro-step on three ranks. In the last but one, the last rank writes to a parameter. If
/// every update overwrites parameters with those of their owners, it writes to a frozen one.
Outcome train_with_a_write(int stage, std::string const& zeroth, int steps) {
  return run_job(3, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(stage, {.accumulation = 1, .zeroth = zeroth})};
    static_cast<void>(train(engine, steps, [&](auto& micro, int step) {
      micro_step(micro, small);
      auto const p = micro.forward(small.units[1]);  // after the loss: an earlier forward would be one more use
      auto const* const value = p[stage == 0 ? small.weights[1] : small.frozen].data() + 7;
      if (step == steps - 2 && job.rank() == 2) {
        *const_cast<float*>(value) += 0.001F;  // NOLINT(cppcoreguidelines-pro-type-const-cast): a caller may do so
      }
    }));
  });
}

/// Saves the small model's weights with `change` applied to the values of one parameter.
template <class F>
void save_changed(std::filesystem::path const& original, std::filesystem::path const& changed, F const& change) {
  auto file = SafetensorsFile::parse(read_file(original));
  auto values = file.floats("block1.w");
  change(values);
  auto const begin = file.header.at("block1.w").at("data_offsets").at(0).get<std::size_t>();
  std::memcpy(file.data.data() + begin, values.data(), values.size() * sizeof(float));
  write_file(changed, file.bytes());
}

/// The last rank loads another file than the others.
Outcome load_different(int stage, std::filesystem::path const& mine, std::filesystem::path const& other, int world = 2,
                       SmallFile const& file = {}) {
  return run_job(world, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(stage, file)};
    engine.load_weights(job.rank() < world - 1 ? mine : other);
  });
}

}  // namespace

TEST_CASE("initialisers that differ between ranks are found when engines are built") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    check_all(built_with(3, stage, [](int rank, std::int64_t) { return rank == 2 ? 1.0F : 2.0F; }),
              "ranks 0 and 2 built an engine from different models (units, parameters, shapes, options, initial values "
              "or seed)");
    CHECK(messages_of(built_with(3, stage, [](int, std::int64_t element) {
            return static_cast<float>(element);
          })).empty());
  }
}

TEST_CASE("one different initial element is found if parameters are unsharded") {
  for (int stage = 0; stage <= 2; ++stage) {
    INFO("stage " << stage);
    check_all(
        built_with(3, stage, [](int rank, std::int64_t element) { return rank == 1 && element == 20 ? 1.0F : 2.0F; }),
        "rank 1's unit \"second\" differs from rank 0's after initialisation");
  }
}

TEST_CASE("of many ranks with different initial values the first eight are named, and the others counted") {
  auto const message = [](int world) {
    return message_of(
        built_with(world, 0, [](int rank, std::int64_t i) { return i == 20 && rank > 0 ? 1.0F : 2.0F; })[0]);
  };
  CHECK_THAT(message(9), Contains("rank 1's unit \"second\" differs from rank 0's, rank 2's") &&
                             Contains("rank 8's unit \"second\" differs from rank 0's after") &&
                             !Contains("more rank"));
  CHECK_THAT(message(11), Contains("rank 8's unit \"second\" differs from rank 0's and 2 more ranks after") &&
                              !Contains("rank 9's"));
}

TEST_CASE("one different initial element is found among replicas, in every group") {
  // With shards over two of four ranks, ranks 0 and 2 have the first half of 512 elements, ranks 1 and 3 the second.
  auto const differs = [](int rank, std::int64_t at) {
    return [=](int of, std::int64_t element) { return of == rank && element == at ? 1.0F : 2.0F; };
  };
  for (auto const* const zero : {R"(, "zero_hpz_partition_size": 2)", R"(, "mics_shard_size": 2)"}) {
    INFO(zero);
    check_all(
        built_with(4, 3, differs(2, 20), {.zero = zero}),
        "rank 2's unit \"second\" differs from rank 0's after initialisation: ranks that should hold the same do not");
    check_all(built_with(4, 3, differs(3, 280), {.zero = zero}),
              "rank 3's unit \"second\" differs from rank 1's after initialisation");
    CHECK(messages_of(built_with(4, 3, differs(2, 280), {.zero = zero})).empty());  // rank 2 does not have that element
  }
  // Masters and states of replicas, while all ranks have whole parameters.
  check_all(built_with(4, 1, differs(3, 20), {.zero = R"(, "mics_shard_size": 2)"}),
            "rank 3's unit \"second\" differs from rank 0's after initialisation");
}

TEST_CASE("an initialiser that is not a function of the index ends every rank") {
  for (int const stage : {0, 3}) {
    auto const outcome = run_job(2, [&](Job& job) {
      Model model;
      auto const random = PerElement{
          [generator = std::mt19937{1}](std::int64_t) mutable { return static_cast<float>(generator() % 1000); }};
      static_cast<void>(model.param(model.unit("u"), "w", {20}, random));
      Engine<float> const engine{job, model, small_config(stage)};
    });
    INFO("stage " << stage);
    CHECK_THAT(messages_of(outcome),
               Contains("PerElement of parameter \"w\" gave ") && Contains("it must be a pure function of the index"));
    CHECK(std::ranges::none_of(outcome, [](auto const& error) { return error == nullptr; }));
  }
}

TEST_CASE("ranks that load different files get an error") {
  Folder const folder;
  auto const original = folder.path() / "original";
  auto const other = folder.path() / "other";
  REQUIRE(messages_of(run_job(1, [&](Job& job) {
            SmallModel const small;
            Engine<float> engine{job, small.model, small_config(0)};
            engine.save_weights(original);
          })).empty());
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    CHECK(messages_of(load_different(stage, original, original)).empty());
    save_changed(original, other,
                 [](auto& values) { std::ranges::for_each(values, [](float& value) { value += 0.001F; }); });
    check_all(load_different(stage, original, other),
              "rank 1's parameter \"block1.w\" differs from rank 0's in the file");
    save_changed(original, other, [](auto& values) { values[20] += 0.001F; });
    if (stage <= 2) {
      check_all(load_different(stage, original, other),
                "rank 1's unit \"block1\" differs from rank 0's after load_weights()");
    }
  }
  save_changed(original, other, [](auto& values) { values[280] += 0.001F; });
  for (auto const* const zero : {R"(, "zero_hpz_partition_size": 2)", R"(, "mics_shard_size": 2)"}) {
    check_all(load_different(3, original, other, 4, {.zero = zero}),
              "rank 3's unit \"block1\" differs from rank 1's after load_weights()");
  }
}

TEST_CASE("with zeroth.check, replicas that diverged in training are found within 100 steps") {
  for (int stage = 0; stage <= 2; ++stage) {
    INFO("stage " << stage);
    check_all(train_with_a_write(stage, R"(, "check": true)", 100),
              "rank 2's unit \"block1\" differs from rank 0's after step 100");
    CHECK(messages_of(train_with_a_write(stage, "", 100)).empty());
    CHECK(messages_of(train_with_a_write(stage, R"(, "check": true)", 99)).empty());
  }
}

}  // namespace zeroth::testing
