// SPDX-License-Identifier: Apache-2.0
/// Open guards of several units at once: nested modules, and units without declared uses, train the same as the same
/// math one unit after the other.
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

/// A root, with a tie to its last child, and three children.
struct Nest {
  Model model{5};
  Unit root;
  Param<1> root_weight;
  std::vector<Unit> children;
  std::vector<Param<1>> weights;

  explicit Nest(bool stays_open)
      : root{model.unit("root", {.stays_open = stays_open})},
        root_weight{model.param(root, "root.w", {260}, Normal{0.5F})} {
    for (int c = 0; c < 3; ++c) {
      auto const name = fmt::format("child{}", c);
      children.push_back(model.unit(name));
      weights.push_back(model.param(children.back(), name + ".w", {300}, Normal{0.5F}));
    }
    model.tie(children.back(), root_weight);
  }
};

enum class Walk { nested, in_turn };

/// The bits of a training run, final weights included.
struct Run {
  std::vector<std::uint32_t> bits;
  bool planned = false;
};

void add_bits(std::vector<std::uint32_t>& bits, std::vector<StepReport> const& reports) {
  for (auto const& report : reports) {
    bits.push_back(std::bit_cast<std::uint32_t>(report.loss));
    bits.push_back(std::bit_cast<std::uint32_t>(report.grad_norm));
  }
}

void micro_step_of(MicroStep<float, float>& micro, Nest const& nest, Walk walk, bool skips) {
  auto const sample = micro.first_sample();
  if (skips) {
    micro.skip(nest.children[1]);
  }
  {
    std::optional<Forward<float>> root{micro.forward(nest.root)};
    if (walk == Walk::in_turn) {
      root.reset();
    }
    for (std::size_t c = 0; c < nest.children.size(); ++c) {
      if (c != 1 || !skips) {
        auto const p = micro.forward(nest.children[c]);
        if (root) {
          expect(std::isfinite((*root)[nest.root_weight].data()[0]), "a value of the root is lost");
        }
      }
    }
  }
  float const seed = micro.report_loss(loss_of(sample));
  std::optional<Backward<float, float>> root;
  if (walk == Walk::nested) {
    root.emplace(micro.backward(nest.root));
  }
  for (std::size_t c = nest.children.size(); c-- > 0;) {
    if (c != 1 || !skips) {
      auto const p = micro.backward(nest.children[c]);
      contribute(p, nest.weights[c], sample, seed);
      if (c == 2) {
        contribute(p, nest.root_weight, sample + 1, seed);
      }
    }
  }
  if (walk == Walk::in_turn) {
    root.emplace(micro.backward(nest.root));
  }
  contribute(*root, nest.root_weight, sample, seed);
}

Run run_nest(int world, Config const& config, Walk walk, bool stays_open) {
  std::vector<Run> runs(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    Nest const nest{stays_open};
    Engine<float> engine{job, nest.model, config};
    auto& run = runs[static_cast<std::size_t>(job.rank())];
    add_bits(run.bits, train(engine, 3, [&](auto& micro, int step) {
               micro_step_of(micro, nest, walk, step == 1 && job.rank() == world - 1);
             }));
    std::vector<float> values(260);
    engine.read(nest.root_weight, values);
    for (auto const value : values) {
      run.bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    run.planned = engine.planned() == engine.peak();
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& run : runs) {
    CHECK(run.planned);
    CHECK(run.bits == runs.front().bits);
  }
  return runs.front();
}

}  // namespace

TEST_CASE("guards around those of child units train the same bits at every stage, with and without prefetch") {
  for (int const world : {1, 2, 3}) {
    auto const plain = run_nest(world, small_config(0), Walk::in_turn, false);
    for (int stage = 0; stage <= 3; ++stage) {
      for (std::string const zero :
           {"", R"(, "stage3_prefetch_bucket_size": 0)", R"(, "stage3_prefetch_bucket_size": 1)"}) {
        for (std::string const zeroth : {"", R"(, "poison": true)", R"(, "gradient_slots": 1)"}) {
          INFO(fmt::format("{} ranks, stage {}{}{}", world, stage, zero, zeroth));
          auto const reduced = zeroth + R"(, "reduce_gradients": "last_micro_step")";
          auto const config = small_config(stage, {.zero = zero, .zeroth = zeroth});
          CHECK(run_nest(world, config, Walk::nested, true).bits == run_nest(world, config, Walk::in_turn, true).bits);
          if (stage >= 2 || zeroth.empty()) {
            auto const same = small_config(stage, {.zero = zero, .zeroth = reduced});
            auto const first = small_config(0, {.zeroth = R"(, "reduce_gradients": "last_micro_step")"});
            CHECK(run_nest(world, same, Walk::nested, true).bits == run_nest(world, first, Walk::in_turn, false).bits);
          }
        }
      }
    }
    CHECK(!plain.bits.empty());
  }
}

TEST_CASE("guards held open without stays_open are rejected by name exactly if slots do not suffice") {
  auto const nested = [](int stage, std::string const& zero) {
    return messages_of(run_job(1, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, small_config(stage, {.accumulation = 1, .zero = zero})};
      for (auto micro : engine.micro_steps()) {
        auto const first = micro.forward(small.units[0]);
        auto const second = micro.forward(small.units[2]);
        auto const third = micro.forward(small.units[1]);
        expect(std::isfinite(first[small.weights[0]].data()[0] + second[small.weights[2]].data()[0] +
                             third[small.weights[1]].data()[0]),
               "a value is lost");
        throw std::runtime_error{"enough"};
      }
    }));
  };
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK_THAT(nested(stage, ""), Catch::Contains("enough"));  // prefetch has slots for all three
  }
  CHECK_THAT(nested(3, R"(, "stage3_prefetch_bucket_size": 0)"),
             Catch::Contains("no parameter slot for unit \"block2\": in declared order unit \"block2\" takes that of "
                             "unit \"block0\", whose guard is open"));
}

TEST_CASE("undeclared uses are counted in forward") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 2}) {
      INFO(fmt::format("stage {}, {} ranks", stage, world));
      auto const run = [&](UnitOptions const& options) {
        std::vector<std::uint32_t> bits;
        auto const outcome = run_job(world, [&](Job& job) {
          Model model{7};
          auto const first = model.unit("first");
          auto const a = model.param(first, "a", {200}, Normal{0.5F});
          auto const cell = model.unit("cell", options);
          auto const w = model.param(cell, "w", {300}, Normal{0.5F});
          Engine<float> engine{job, model, small_config(stage)};
          auto const reports = train(engine, 3, [&](auto& micro, int) {
            { auto const p = micro.forward(first); }
            for (int use = 0; use < 3; ++use) {
              auto const p = micro.forward(cell);
            }
            float const seed = micro.report_loss(loss_of(micro.first_sample()));
            for (int use = 0; use < 3; ++use) {
              { auto const recomputed = micro.forward(cell); }  // a forward after the loss does not count as a use
              auto const p = micro.backward(cell);
              contribute(p, w, micro.first_sample() + use, seed);
            }
            auto const p = micro.backward(first);
            contribute(p, a, micro.first_sample(), seed);
          });
          if (job.rank() == 0) {
            add_bits(bits, reports);
          }
        });
        REQUIRE(messages_of(outcome) == "");
        return bits;
      };
      CHECK(run({}) == run({.uses_per_micro_step = 3}));
    }
  }
}

TEST_CASE("the error about too few gradient slots says how many the program's order needs") {
  auto const trained = [](std::vector<std::size_t> const& order, int stage, int slots) {
    return messages_of(run_job(2, [&](Job& job) {
      Model model{7};
      std::vector<Unit> units;
      std::vector<Param<1>> weights;
      for (int u = 0; u < 5; ++u) {
        units.push_back(model.unit(fmt::format("u{}", u)));
        weights.push_back(model.param(units.back(), fmt::format("w{}", u), {300}, Normal{0.5F}));
      }
      Engine<float> engine{job, model,
                           small_config(stage, {.zeroth = fmt::format(R"(, "gradient_slots": {})", slots)})};
      train(engine, 2, [&](auto& micro, int) {
        for (auto const u : order) {
          auto const p = micro.forward(units[u]);
        }
        float const seed = micro.report_loss(loss_of(micro.first_sample()));
        for (auto turn = order.size(); turn-- > 0;) {
          auto const p = micro.backward(units[order[turn]]);
          contribute(p, weights[order[turn]], micro.first_sample(), seed);
        }
      });
    }));
  };
  struct Case {
    std::vector<std::size_t> order;
    int needed;
  };
  for (auto const& [order, needed] :
       {Case{{4, 3, 2, 1, 0}, 5}, Case{{1, 0, 2, 4, 3}, 2}, Case{{0, 2, 4, 3, 2, 1}, 4}}) {
    for (int const stage : {2, 3}) {
      INFO(fmt::format("{} units in another order, stage {}", order.size(), stage));
      CHECK(trained(order, 1, 1) == "");
      CHECK_THAT(trained(order, stage, 1),
                 Catch::Contains(fmt::format("raise zeroth.gradient_slots to {} ", needed)) ||
                     Catch::Contains(fmt::format("raise zeroth.gradient_slots to {}\n", needed)));
      CHECK(trained(order, stage, needed) == "");
    }
  }
}

TEST_CASE("a unit that backward did not reach is skipped after all others, without a gather") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 2}) {
      INFO(fmt::format("stage {}, {} ranks", stage, world));
      std::int64_t gathered[2] = {0, 0};
      auto const run = [&](bool late) {
        std::vector<std::uint32_t> bits;
        auto const outcome = run_job(world, [&](Job& job) {
          SmallModel const small;
          // With slots for only one unit at a time, an unneeded turn would gather.
          Engine<float> engine{job, small.model,
                               small_config(stage, {.zero = R"(, "stage3_prefetch_bucket_size": 0)",
                                                    .zeroth = R"(, "gradient_slots": 3)"})};
          auto const reports = train(engine, 3, [&](auto& micro, int) {
            forward(micro, small);
            float const seed = micro.report_loss(loss_of(micro.first_sample()));
            backward(micro, small, 2, seed);
            if (!late) {
              auto const p = micro.backward(small.units[1]);
            }
            backward(micro, small, 0, seed);
            if (late) {
              micro.skip(small.units[1]);
            }
          });
          if (job.rank() == 0) {
            add_bits(bits, reports);
            gathered[late ? 1 : 0] = reports.back().gathered_bytes;
          }
        });
        REQUIRE(messages_of(outcome) == "");
        return bits;
      };
      CHECK(run(true) == run(false));
      CHECK((stage == 3 ? gathered[1] < gathered[0] : gathered[1] == gathered[0]));
    }
  }
}

}  // namespace zeroth::testing
