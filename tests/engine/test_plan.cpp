// SPDX-License-Identifier: Apache-2.0
/// The plan: available without a job, equal to what the engine holds, and described in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "engine/planning.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using Catch::StartsWith;

char const* const precisions[] = {"",
                                  R"(, "bf16": {"enabled": true})",
                                  R"(, "fp16": {"enabled": true})",
                                  R"(, "communication_data_type": "bf16")",
                                  R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})",
                                  R"(, "bf16": {"enabled": true}, "communication_data_type": "fp32",
                                       "data_types": {"grad_accum_dtype": "fp32"})"};

/// A plan of the synthetic model, and the memory of two engines at the end.
struct Held {
  MemoryBytes plan;
  std::vector<MemoryBytes> planned, peak;
};
Held held_by(int world, Config const& config) {
  SyntheticModel const synthetic;
  Held held{plan(synthetic.model, config, world).bytes, std::vector<MemoryBytes>(static_cast<std::size_t>(world)),
            std::vector<MemoryBytes>(static_cast<std::size_t>(world))};
  auto const outcome = run_job(world, [&](Job& job) {
    auto const trained = train_synthetic(job, config, {.steps = 2});
    held.planned[static_cast<std::size_t>(job.rank())] = trained.planned;
    held.peak[static_cast<std::size_t>(job.rank())] = trained.peak;
  });
  REQUIRE(messages_of(outcome) == "");
  return held;
}

}  // namespace

TEST_CASE("a plan without a job equals every rank's own plan and memory, to the byte") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const precision : precisions) {
      for (int const accumulation : {1, 2}) {
        for (auto const* const reduce : {"every_micro_step", "last_micro_step"}) {
          for (int const world : {1, 3}) {
            auto const zeroth = fmt::format(R"(, "reduce_gradients": "{}")", reduce);
            auto const config =
                small_config(stage, {.accumulation = accumulation, .zeroth = zeroth, .more = precision});
            INFO(fmt::format("stage {}, {}, {} micro-steps, {}, {} ranks", stage, precision, accumulation, reduce,
                             world));
            auto const held = held_by(world, config);
            for (std::size_t rank = 0; rank < held.peak.size(); ++rank) {
              CHECK(held.planned[rank] == held.plan);
              CHECK(held.peak[rank] == held.plan);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("at four ranks, stage 3 holds at most 0.27 of stage 0's model state") {
  Model model;
  for (int u = 0; u < 6; ++u) {
    auto const unit = model.unit(fmt::format("u{}", u));
    static_cast<void>(model.param(unit, fmt::format("w{}", u), {384, 384}, Normal{1}));
    static_cast<void>(model.param(unit, fmt::format("b{}", u), {384}, Constant{0}));
  }
  auto const state = [&](int stage) {
    auto const bytes = plan(model, small_config(stage, {.accumulation = 1}), 4).bytes;
    return static_cast<double>(bytes.parameters + bytes.gradients + bytes.optimizer);
  };
  CHECK(state(3) / state(0) <= 0.27);
  CHECK(state(3) < state(2));
  CHECK(state(2) < state(1));
  CHECK(state(1) < state(0));
}

TEST_CASE("a model that fits no machine can be planned") {
  Model model;
  for (int u = 0; u < 96; ++u) {
    auto const unit = model.unit(fmt::format("block{}", u));
    static_cast<void>(model.param(unit, fmt::format("block{}.w", u), {12288, 12 * 12288}, Normal{1}));
  }
  auto const bytes =
      plan(model, small_config(3, {.accumulation = 1, .more = R"(, "bf16": {"enabled": true})"}), 1024).bytes;
  auto const params = std::int64_t{96} * 12288 * 12 * 12288;
  CHECK(bytes.parameters == 2 * params / 1024);
  CHECK(bytes.gradients == 2 * params / 1024);
  CHECK(bytes.optimizer == 12 * params / 1024);
  auto const optimizer = [&](char const* more) {
    auto const section = fmt::format(R"(, "bf16": {{"enabled": true, "bf16_master_weights_and_grads": true{}}})", more);
    return plan(model, small_config(3, {.accumulation = 1, .more = section}), 1024).bytes.optimizer;
  };
  CHECK(optimizer("") == 8 * params / 1024);
  CHECK(optimizer(R"(, "bf16_optimizer_states": true)") == 4 * params / 1024);
}

TEST_CASE("gradient_slots may be any number, because there are no more slots than units that need them") {
  SyntheticModel const synthetic;  // it has a tied parameter
  for (int const stage : {2, 3}) {
    auto const config = [&](char const* slots) {
      return small_config(stage, {.accumulation = 1, .zeroth = fmt::format(R"(, "gradient_slots": {})", slots)});
    };
    auto const bytes = plan(synthetic.model, config("1000"), 2).bytes;
    CHECK(plan(synthetic.model, config("2147483647"), 2).bytes == bytes);
    auto const held = held_by(2, config("2147483647"));
    for (auto const& peak : held.peak) {
      CHECK(peak == bytes);
    }
  }
}

TEST_CASE("the conversion buffer of reductions is as large as the largest bucket, by elements or units") {
  constexpr std::int64_t unit_count = 1280;  // a size without padding on two ranks
  Model model;
  for (int u = 0; u < 6; ++u) {
    static_cast<void>(model.param(model.unit(fmt::format("u{}", u)), fmt::format("w{}", u), {unit_count}, Constant{0}));
  }
  auto const scratch = [&](int stage, int slots, std::int64_t bucket, char const* reduce) {
    auto const config = small_config(stage, {.accumulation = 1,
                                             .zero = fmt::format(R"(, "reduce_bucket_size": {})", bucket),
                                             .zeroth = fmt::format(R"(, "gradient_slots": {})", slots),
                                             .more = reduce});
    return plan(model, config, 2).bytes.scratch;
  };
  auto const conversion_count = [&](int stage, int slots, std::int64_t bucket) {
    return (scratch(stage, slots, bucket, R"(, "communication_data_type": "bf16")") -
            scratch(stage, slots, bucket, "")) /
           bytes_of(Dtype::bf16);
  };
  for (int const stage : {2, 3}) {  // a bucket has at most half as many units as there are slots
    CHECK(conversion_count(stage, 2, 1'000'000) == unit_count);
    CHECK(conversion_count(stage, 4, 1'000'000) == 2 * unit_count);
    CHECK(conversion_count(stage, 6, 1'000'000) == 3 * unit_count);
    CHECK(conversion_count(stage, 1000, 1'000'000) == 6 * unit_count);
    CHECK(conversion_count(stage, 6, 3072) == 3072);
    CHECK(conversion_count(stage, 6, 1) == unit_count);
  }
  CHECK(conversion_count(1, 2, 1'000'000) == 6 * unit_count);  // gradients that stay whole have no slots
  CHECK(conversion_count(1, 2, 3072) == 3072);
}

TEST_CASE("plans do not overflow up to the largest model, and larger models are rejected") {
  std::int64_t const most = std::int64_t{1} << 54U;
  for (int stage = 0; stage <= 3; ++stage) {
    Model model;
    for (int u = 0; u < 2; ++u) {
      auto const unit = model.unit(fmt::format("u{}", u));
      static_cast<void>(model.param(unit, fmt::format("w{}", u), {most / 2}, Constant{0}));
    }
    auto const bytes = plan(model,
                            small_config(stage, {.zeroth = R"(, "gradient_slots": 2147483647, "gradient_dtype": "fp32",
                                                                "reduce_gradients": "every_micro_step")",
                                                 .more = R"(, "bf16": {"enabled": true})"}),
                            1)
                           .bytes;
    CHECK(bytes.parameters == 2 * most);
    CHECK(bytes.optimizer == 12 * most);
    CHECK(bytes.gradients == (stage < 2 ? 8 : 4) * most);
    CHECK(bytes.slots <= 6 * most);
    CHECK(bytes.total() < 30 * most);
    CHECK_THAT(thrown<ContractError>([&] { return plan(model, small_config(stage), 3); }),
               Contains("a model of 2 units for 3 ranks has, with the padding of slices, more than 18014398509481984 "
                        "(2^54) elements"));
  }
}

TEST_CASE("a step may have any number of micro-steps, because no memory is reserved for each") {
  SmallModel const small;
  auto const outcome = run_job(1, [&](Job& job) {
    Engine<float> const engine{job, small.model, small_config(0, {.accumulation = 2147483647, .micro_batch = 1})};
  });
  CHECK(messages_of(outcome) == "");
}

TEST_CASE("a plan counts persistent parameters, which are unsharded and need no slots") {
  SmallModel const small;
  auto const planned = [&](int stage, char const* zero) {
    return plan(small.model, small_config(stage, {.zero = zero}), 3);
  };
  auto const none = planned(3, "");
  auto const some = planned(3, R"(, "stage3_param_persistence_threshold": 50)");
  auto const all = planned(3, R"(, "stage3_param_persistence_threshold": 300)");
  CHECK(none.persistent.parameters == 0);
  CHECK(some.persistent.parameters == 1);
  CHECK(some.persistent.count == 50);
  CHECK(all.persistent.parameters == 4);
  CHECK(all.persistent.count == 950);
  // 50 elements are one slice of 128, and 384 on three ranks; 300 elements are 384 too.
  CHECK(some.bytes.parameters == none.bytes.parameters + 4 * 2 * 128);
  CHECK(all.bytes.parameters == 4 * 4 * 384);
  CHECK(all.persistent.bytes == all.bytes.parameters);
  CHECK(some.persistent.bytes == 4 * 384);
  CHECK(all.bytes.optimizer == none.bytes.optimizer);
  CHECK(none.parameter_slots.size() == 2);
  CHECK(some.parameter_slots.size() == 1);
  CHECK(all.parameter_slots.empty());
  CHECK(all.bytes.slots < none.bytes.slots);
  CHECK_THAT(explain_plan(some),
             Contains("whole on every rank: 1 persistent parameter, 50 elements, 1536 B with padding\n"));
  CHECK_THAT(explain_plan(all), Contains("whole on every rank: 4 persistent parameters, 950 elements, 6144 B"));
  CHECK_THAT(explain_plan(none), !Contains("persistent"));
  CHECK_THAT(explain_plan(planned(2, R"(, "stage3_param_persistence_threshold": 50)")), !Contains("persistent"));
}

TEST_CASE("the text of a plan has every category and every decision") {
  SyntheticModel const synthetic;
  auto const words = [&](int stage, SmallFile const& file = {}) {
    return explain_plan(plan(synthetic.model, small_config(stage, file), 3));
  };
  for (int stage = 0; stage <= 3; ++stage) {
    auto const bytes = plan(synthetic.model, small_config(stage), 3).bytes;
    auto const text = words(stage);
    INFO(text);
    CHECK_THAT(text, Contains(fmt::format("stage {}, 3 ranks, ", stage)) && Contains("flat units"));
    for (auto const category :
         {bytes.parameters, bytes.gradients, bytes.optimizer, bytes.slots, bytes.scratch, bytes.total()}) {
      CHECK_THAT(text, Contains(fmt::format(" {} B", category)));
    }
    CHECK_THAT(text, Contains("dtypes: compute fp32, gradient fp32, reduce fp32, accumulate fp32, master fp32"));
    CHECK_THAT(text, Contains("batch: 12 = 2 samples x 2 micro-steps x 3 ranks"));
  }
  CHECK_THAT(words(0), Contains("placements: parameters whole, gradients whole, optimizer whole"));
  CHECK_THAT(words(1), Contains("placements: parameters whole, gradients whole, optimizer shard"));
  CHECK_THAT(words(2), Contains("placements: parameters whole, gradients shard, optimizer shard"));
  CHECK_THAT(words(3), Contains("placements: parameters shard, gradients shard, optimizer shard") &&
                           Contains("parameter slots: ") && Contains("gradient slots: "));
  CHECK_THAT(words(2, {.zeroth = R"(, "gradient_slots": 6)"}),
             Contains("buckets: at most 3 units, half of zeroth.gradient_slots, whatever reduce_bucket_size allows"));
  CHECK_THAT(words(3, {.more = R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true})"}),
             Contains("accumulate bf16, master bf16, states fp32") && Contains("updates are rounded stochastically"));
  CHECK_THAT(
      words(3, {.zeroth = R"(, "reduce_gradients": "last_micro_step")"}),
      Contains("gradients are whole: with zeroth.reduce_gradients last_micro_step they are held between micro-steps") &&
          Contains("micro-steps add up in fp32 (zeroth.gradient_dtype), and are reduced once"));
}

TEST_CASE("a group on several machines causes a warning, and 16 bits that are rounded twice a note") {
  auto const settings = [](char const* zero, char const* zeroth, char const* more = "") {
    return small_config(3, {.zero = zero, .zeroth = zeroth, .more = more}).settings(8, 1);
  };
  auto const hpz = settings(R"(, "zero_hpz_partition_size": 4)", "");
  using Machines = std::vector<std::uint64_t>;
  CHECK(engine::crossing_warning(hpz, Machines{1, 1, 1, 1, 2, 2, 2, 2}) == "");
  CHECK(engine::crossing_warning(hpz, Machines{1, 1, 1, 1, 1, 1, 1, 1}) == "");
  CHECK_THAT(engine::crossing_warning(hpz, Machines{1, 1, 1, 1, 2, 2, 3, 2}),
             Contains("the group of ranks 4 to 7 spans 2 machines"));
  CHECK(engine::crossing_warning(settings("", ""), Machines{1, 2, 3, 4, 5, 6, 7, 8}) == "");
  auto const two_levels = R"(, "two_level_sums": true, "group_size": 2)";
  CHECK(engine::two_level_note(settings("", two_levels)) == "");
  CHECK_THAT(engine::two_level_note(settings("", two_levels, R"(, "bf16": {"enabled": true})")),
             Contains("rounds sums to bf16 twice") && Contains("communication_data_type \"fp32\""));
}

TEST_CASE("fp32 sums of 16-bit gradients cost four bytes per element, at every stage") {
  Model model;
  auto const unit = model.unit("u");
  static_cast<void>(model.param(unit, "w", {128 * 1024}, Normal{1}));
  std::int64_t const count = 128 * 1024;
  auto const gradients = [&](int stage, char const* more) {
    return plan(model,
                small_config(stage, {.zeroth = R"(, "reduce_gradients": "last_micro_step")",
                                     .more = std::string{R"(, "bf16": {"enabled": true})"} + more}),
                4)
        .bytes.gradients;
  };
  char const* const wide = R"(, "data_types": {"grad_accum_dtype": "fp32"})";
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(gradients(stage, "") == 2 * count);
    CHECK(gradients(stage, wide) == (stage < 2 ? 6 : 4) * count);  // at stages 2 and 3 backward writes to slots
  }
}

TEST_CASE("the plan notes if stages would round differently, and if many micro-steps are added in 16 bits") {
  SmallModel const small;
  auto const words = [&](int stage, SmallFile const& file) {
    return explain_plan(plan(small.model, small_config(stage, file), 1));
  };
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK_THAT(
        words(stage, {}),
        Contains("note: zeroth.reduce_gradients is not set") && Contains("after each of its 2 micro-steps") &&
            Contains(fmt::format("\"{}_micro_step\" is the default of stage {}", stage < 2 ? "last" : "every", stage)));
    CHECK_THAT(words(stage, {.accumulation = 1}), !Contains("note:"));
    CHECK_THAT(words(stage, {.zeroth = R"(, "reduce_gradients": "every_micro_step")"}), !Contains("note:"));
  }
  auto const of = [&](int micro_steps, char const* reduce, char const* more) {
    return words(
        1, {.accumulation = micro_steps, .zeroth = fmt::format(R"(, "reduce_gradients": "{}")", reduce), .more = more});
  };
  char const* const bf16 = R"(, "bf16": {"enabled": true})";
  char const* const summed = R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})";
  char const* const narrow = R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"})";
  char const* const masters = R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true})";
  auto const told = Contains(
      "note: 9 micro-steps are added up in bf16, whose roundings grow with their number; "
      "data_types.grad_accum_dtype \"fp32\" adds them up in fp32\n");
  CHECK_THAT(of(9, "last_micro_step", bf16), told);
  CHECK_THAT(of(9, "every_micro_step", narrow), told);
  CHECK_THAT(of(9, "every_micro_step", masters), Contains("a file without bf16.bf16_master_weights_and_grads\n"));
  CHECK_THAT(of(8, "last_micro_step", bf16), !Contains("note:"));
  CHECK_THAT(of(9, "every_micro_step", bf16), !Contains("note:"));
  CHECK_THAT(of(9, "last_micro_step", ""), !Contains("note:"));
  CHECK_THAT(of(9, "last_micro_step", summed),
             !Contains("note:") && Contains("micro-steps add up in fp32 (data_types.grad_accum_dtype)"));
}

TEST_CASE("the plan begins with the model and the job that it is for") {
  SmallModel const small;  // 3 * 300 trainable and 50 frozen elements: with padding 3 * 384 and 128 on one rank, 384 on
                           // three
  auto const words = [&](int stage, int world) { return explain_plan(plan(small.model, small_config(stage), world)); };
  CHECK_THAT(words(0, 1), StartsWith("stage 0, 1 rank, 950 parameters (1280 with padding) in 3 flat units\n"));
  CHECK_THAT(words(3, 3), StartsWith("stage 3, 3 ranks, 950 parameters (1536 with padding) in 3 flat units\n"));
}

TEST_CASE("the plan suggests sizes of tiles and buffers that need little memory") {
  Model model;
  static_cast<void>(model.param(model.unit("large"), "w", {3 << 22}, Constant{0}));
  auto const notes = [&](char const* what, char const* sizes) {
    auto const zero = fmt::format(R"("stage": 3, "{}": {{"device": "nvme", "nvme_path": "/tmp"{}}})", what, sizes);
    auto const config =
        Config::from_json(fmt::format(R"({{"train_batch_size": 1, "zero_optimization": {{{}}}}})", zero));
    auto const all = plan(model, config, 1).notes;
    return fmt::format("{}", fmt::join(all, "\n"));
  };
  // The largest power of two such that 8 times the total size of tiles or buffers is at most the number of elements.
  CHECK_THAT(notes("offload_optimizer", ""),
             Contains("a zero_optimization.sub_group_size of 1048576 makes them smaller"));
  CHECK_THAT(notes("offload_param", R"(, "max_in_cpu": 0)"),
             Contains("a zero_optimization.offload_param.buffer_size of 524288 makes them smaller"));
}

TEST_CASE("the plan notes if delayed updates have one bucket for all gradients, and what makes several") {
  SmallModel const small;
  auto const notes = [&](char const* zero, int world = 2, bool delayed = true) {
    SmallFile const file{.accumulation = 1, .zero = zero, .zeroth = fmt::format(R"(, "delayed_update": {})", delayed)};
    return explain_plan(plan(small.model, small_config(0, file), world));
  };
  auto const overlaps = R"(, "overlap_comm": true)";
  CHECK_THAT(notes(overlaps),
             Contains("one bucket has all 1536 gradients, since zero_optimization.reduce_bucket_size is "
                      "500000000: with zeroth.delayed_update, reductions and updates then cannot overlap backward; 192 "
                      "makes about 8 buckets"));
  CHECK_THAT(notes(R"(, "overlap_comm": true, "reduce_bucket_size": 1536)"),
             Contains("one bucket has all 1536 gradients"));
  CHECK_THAT(notes(R"(, "overlap_comm": true, "reduce_bucket_size": 1535)"), !Contains("one bucket has all"));
  CHECK_THAT(notes(overlaps, 1), !Contains("one bucket has all"));
  CHECK_THAT(notes(overlaps, 2, false), !Contains("one bucket has all"));
  CHECK_THAT(notes(""), !Contains("one bucket has all"));  // without overlap nothing runs concurrently
}

TEST_CASE("the plan notes if stage3_max_live_parameters leaves no prefetch, and what would suffice") {
  SmallModel const small;  // 384, 384 + 128 and 384 elements on one rank
  auto const words = [&](int stage, char const* zero) {
    return explain_plan(plan(small.model, small_config(stage, {.zero = zero}), 1));
  };
  CHECK_THAT(words(3, R"(, "stage3_max_live_parameters": 895)"),
             Contains("note: 4 of 6 turns of a training pass are not prefetched: their unit and the previous one "
                      "together exceed zero_optimization.stage3_max_live_parameters, 895; 896 suffices for all\n"));
  CHECK_THAT(words(3, R"(, "stage3_max_live_parameters": 896)"), !Contains("not prefetched"));
  CHECK_THAT(words(3, ""), !Contains("not prefetched"));
  CHECK_THAT(words(3, R"(, "stage3_max_live_parameters": 1, "stage3_prefetch_bucket_size": 0)"),
             !Contains("not prefetched"));
  CHECK_THAT(words(3, R"(, "stage3_max_live_parameters": 1, "overlap_comm": false)"), !Contains("not prefetched"));
  CHECK_THAT(words(2, R"(, "stage3_max_live_parameters": 1)"), !Contains("not prefetched"));
}

TEST_CASE("a plan whose batch contradicts the number of ranks is rejected") {
  SmallModel const small;
  auto const config = small_config(1, {.more = R"(, "train_batch_size": 12)"});
  CHECK(plan(small.model, config, 3).bytes.total() > 0);
  CHECK_THROWS_AS(plan(small.model, config, 4), ConfigError);
}

TEST_CASE("a plan has all numbers that its text and the tool's tables show") {
  SmallModel const small;  // 384, 384 + 128 and 384 elements; the first is tied into the last
  for (int stage = 0; stage <= 3; ++stage) {
    auto const p = plan(small.model, small_config(stage), 3);
    INFO(explain_plan(p));
    CHECK(p.settings.stage == stage);
    CHECK(p.world == 3);
    CHECK(p.units == std::ssize(small.model.description().units));
    CHECK(p.parameter_count == small.model.description().count);
    CHECK(p.padded_count >= p.parameter_count);
    CHECK(p.padded_count % (3 * 128) == 0);
    CHECK(p.largest_flat_unit_count > 0);
    CHECK(p.shards_optimizer == (stage >= 1));
    CHECK(p.shards_gradients == (stage >= 2));
    CHECK(p.shards_parameters == (stage == 3));
    CHECK(p.parameter_slots.empty() == !p.shards_parameters);
    CHECK(p.gradient_slots.empty() == !p.shards_gradients);
    CHECK(p.without_padding().total() + p.padding.total() == p.bytes.total());
    CHECK(p.notes.size() == 1);  // stages round differently
    std::int64_t sharing = 0;
    for (auto const& slots : p.parameter_slots) {
      CHECK(slots.slots > 0);
      CHECK(slots.capacity_count >= p.largest_flat_unit_count / 2);
      sharing += slots.flat_units;
    }
    CHECK(sharing == (stage == 3 ? p.flat_units : 0));
  }
}

}  // namespace zeroth::testing
