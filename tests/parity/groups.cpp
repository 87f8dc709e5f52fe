// SPDX-License-Identifier: Apache-2.0
/// Ranks in groups train like stage 0, bit for bit, optimizer states included, whatever is sharded within a group, at
/// every group size. With sums in two levels all of these train the same too, but not like a single sum.
#include "groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ended.hpp"
#include "support/catch.hpp"
#include "support/delayed.hpp"
#include "support/next.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

Config plain(Types const& types, int accumulation, char const* reduce, Movement const& move,
             std::string const& more = "") {
  return Config::from_json(file(types, 0, accumulation, reduce, move, more));
}

/// Leaves most types out under a sanitizer, which tests code, not bits.
}  // namespace

TEST_CASE("groups of any size have the bits of stage 0") {
  auto const world = GENERATE(3, 4, 6, 8);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const [accumulation, reduce] =
      GENERATE(table<int, char const*>({{1, "every_micro_step"}, {3, "every_micro_step"}, {3, "last_micro_step"}}));
  if (world != 4 && (accumulation == 1) == (world == 6)) {
    return;  // only four ranks run the whole grid
  }
  Next next{movements};
  auto const base = trained(world, plain(types, accumulation, reduce, movements[1]));
  for (auto const& grouping : groupings) {
    for (int const size : group_sizes(world)) {
      static Sample sample{5};
      if (sample.leaves_out()) {
        continue;
      }
      auto const& move = next();
      auto const* const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
      INFO(fmt::format("{} ranks, {}, {} micro-steps, {}, {}, overlap {}", world, types.name, accumulation, reduce,
                       grouping.name(size), move.overlap));
      auto const config = in_groups(plain(types, accumulation, reduce, move, poison), grouping, size);
      REQUIRE(trained(world, config) == base);
    }
  }
}

TEST_CASE("in groups, the optimizer's states are those of stage 0") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  Next next{movements};
  auto const base = ended(6, plain(types, 2, "every_micro_step", movements[1]));
  REQUIRE(base.second.size() > 20);
  for (auto const& grouping : groupings) {
    INFO(fmt::format("{}, {}", types.name, grouping.name(3)));
    REQUIRE(ended(6, in_groups(plain(types, 2, "every_micro_step", next()), grouping, 3)) == base);
  }
}

TEST_CASE("two-level sums train the same at all stages with groups of one size, but not like a single sum") {
  auto const world = GENERATE(4, 6, 8);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const* const reduce = GENERATE("every_micro_step", "last_micro_step");
  if (world != 4 && (world == 6) == (std::string_view{reduce} == "last_micro_step")) {
    return;  // only four ranks run the whole grid
  }
  auto const flat = trained(world, plain(types, 2, reduce, movements[1]));
  Next next{movements};
  for (int const size : group_sizes(world)) {
    auto const run = [&](Grouping const& grouping) {
      INFO(fmt::format("{} ranks, {}, {}, {}", world, types.name, reduce, grouping.name(size)));
      return trained(world, in_groups(plain(types, 2, reduce, next(), R"(, "poison": true)"), grouping, size, true));
    };
    auto const base = run(stages_alone[0]);
    bool const one_level = size == 1 || size == world;
    bool const exact = types.name == all_types[3].name || types.name == bf16_reduced_in_fp32.name;  // sums of these
                                                                                                    // types are often
                                                                                                    // exact
    INFO(fmt::format("{} ranks in groups of {}, {}, {}", world, size, types.name, reduce));
    REQUIRE((one_level ? base == flat : exact || base != flat));
    for (auto const& grouping : {stages_alone[1], stages_alone[2], stages_alone[3]}) {
      REQUIRE(run(grouping) == base);
    }
    for (auto const& grouping : groupings) {
      static Sample sample{3};
      if ((size > 1 || grouping.cut == Cut::states) && !sample.leaves_out()) {
        REQUIRE(run(grouping) == base);
      }
    }
  }
}

TEST_CASE("two-level sums are rounded within groups, then over groups") {
  // Three of four places add 1; the first adds a number whose neighbours in fp32 are 2 apart.
  Model model;
  auto const unit = model.unit("u");
  auto const w = model.param(unit, "w", {4}, Constant{0});
  constexpr float large = 16777216;
  auto const summed = [&](std::string const& keys) {
    float norm = 0;
    auto const outcome = run_job(4, [&](Job& job) {
      auto const config = Config::from_json(
          R"({"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "optimizer": {"type": "SGD"}, )" + keys +
          "}");
      Engine<float> engine{job, model, config};
      for (auto micro : engine.micro_steps()) {
        static_cast<void>(micro.forward(unit));
        static_cast<void>(micro.report_loss(0));
        auto const p = micro.backward(unit);
        p.grad(w).data()[0] = engine.place() == 0 ? large : 1;
        std::fill_n(p.grad(w).data() + 1, 3, 0.0F);
      }
      static_cast<void>(engine.step());
      auto const report = engine.finish();
      if (job.rank() == 0) {
        norm = report->grad_norm * 4;
      }
    });
    REQUIRE(messages_of(outcome) == "");
    return norm;
  };
  // Places 0 and 2 are one group, 1 and 3 the other: (large + 1) + (1 + 1). A sequential sum would lose each 1.
  for (auto const* const stage : {"0", "1", "2", "3"}) {
    INFO("stage " << stage);
    auto const zero = fmt::format(R"("zero_optimization": {{"stage": {}}})", stage);
    CHECK(summed(zero) == large);
    CHECK(summed(zero + R"(, "zeroth": {"two_level_sums": true, "group_size": 2})") == large + 2);
  }
}

TEST_CASE("groups have the bits of stage 0 with every optimizer") {
  auto const rule = GENERATE(from_range(trained_rules()));
  auto const types = GENERATE(fp32_types, bf16_masters_and_moments);
  if (!has_bf16_states(rule) && types.name == bf16_masters_and_moments.name) {
    return;
  }
  auto const config = [&](Movement const& move) {
    return Config::from_json(file(types, 0, 2, "every_micro_step", move, "", rule.optimizer));
  };
  INFO(fmt::format("{}, {}", rule.name, types.name));
  auto const base = ended(4, config(movements[1]));
  Next next{movements};
  for (auto const& grouping : {groupings[0], groupings[3]}) {
    INFO(grouping.name(2));
    REQUIRE(ended(4, in_groups(config(next()), grouping, 2)) == base);
  }
}

TEST_CASE("groups add micro-steps in fp32 like stage 0") {
  auto const types = GENERATE(bf16_summed_in_fp32, fp16_summed_in_fp32, bf16_summed_and_reduced_in_fp32);
  auto const two_levels = GENERATE(false, true);
  Next next{movements};
  auto const base = trained(4, in_groups(plain(types, 3, "last_micro_step", next()), stages_alone[0], 2, two_levels));
  for (auto const& grouping : groupings) {
    INFO(fmt::format("{}, {}, two levels: {}", types.name, grouping.name(2), two_levels));
    REQUIRE(trained(4, in_groups(plain(types, 3, "last_micro_step", next()), grouping, 2, two_levels)) == base);
  }
}

TEST_CASE("delays change nothing in groups") {
  auto const types = GENERATE_COPY(all_types[0], all_types[1]);
  auto const two_levels = GENERATE(false, true);
  int const world = 4;
  auto const base =
      trained(world, in_groups(plain(types, 2, "every_micro_step", movements[1]), stages_alone[0], 2, two_levels));
  for (auto const& grouping : groupings) {
    for (auto const& move : movements) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {}, overlap {}, two levels: {}", types.name, grouping.name(2), move.overlap, two_levels));
      TrainOptions options;
      options.waits = true;
      auto const config = plain(types, 2, "every_micro_step", move, R"(, "poison": true)");
      REQUIRE(trained(world, in_groups(config, grouping, 2, two_levels), options, delayed) == base);
    }
  }
}

TEST_CASE("an overflow in one group skips the update in all") {
  TrainOptions options;
  options.overflow_at_step = 2;
  options.evaluates = false;
  options.skips = false;
  auto const base = ended(4, plain(fp16_types, 2, "every_micro_step", movements[1]), options);
  for (auto const& grouping : groupings) {
    INFO(grouping.name(2));
    CHECK(ended(4, in_groups(plain(fp16_types, 2, "every_micro_step", movements[2]), grouping, 2), options) == base);
  }
}

TEST_CASE("random jobs in groups have the bits of stage 0") {
  auto const seed = GENERATE(take(1, random(0, 1 << 30)));
  std::mt19937 random{static_cast<unsigned>(seed)};
  auto const among = [&](auto const& all) { return all[random() % std::size(all)]; };
  for (int job = 0; job < 20; ++job) {
    int const world = static_cast<int>(2 + random() % 8);
    int const size = among(group_sizes(world));
    auto const grouping = among(groupings);
    auto const types = among(all_types);
    auto const accumulation = static_cast<int>(1 + random() % 3);
    char const* const reduce = random() % 2 == 0 ? "every_micro_step" : "last_micro_step";
    bool const two_levels = random() % 2 == 0 && (size > 1 || grouping.cut == Cut::states);
    auto const drawn = among(trained_rules());
    auto const rule = has_bf16_states(drawn) || types.name != bf16_masters_and_moments.name ? drawn : all_rules()[0];
    auto const config = [&](Movement const& move, std::string const& more) {
      return Config::from_json(file(types, 0, accumulation, reduce, move, more, rule.optimizer));
    };
    INFO(fmt::format("seed {}, job {}: {} ranks, {}, two levels: {}, {}, {}, {} micro-steps, {}", seed, job, world,
                     grouping.name(size), two_levels, types.name, rule.name, accumulation, reduce));
    auto const base = ended(world, in_groups(config(movements[1], ""), stages_alone[0], size, two_levels));
    TrainOptions options;
    options.waits = random() % 2 == 0;
    auto const more = fmt::format(R"(, "single_communicator": {}, "check": {})", random() % 3 == 0, random() % 2 == 0);
    auto const grouped = in_groups(config(among(movements), more), grouping, size, two_levels);
    REQUIRE(ended(world, grouped, options, random() % 2 == 0 ? Wrap{delayed} : Wrap{}) == base);
  }
}

}  // namespace zeroth::testing
