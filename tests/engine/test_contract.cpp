// SPDX-License-Identifier: Apache-2.0
/// Misuse, at every stage: the rank gets an error that names the unit and both states, and the other ranks are aborted
/// instead of waiting forever.
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

struct Scene {
  Engine<float>& engine;
  SmallModel& small;
};

/// All ranks do it if it begins with something that the other ranks have to join.
enum class By { one, all };

struct Misuse {
  char const* name;
  void (*act)(Scene const&);
  char const* says;
  By by = By::one;
};

/// Runs `act` in the first micro-step of a step.
template <class F>
void in_micro_step(Scene const& s, F const& act) {
  for (auto micro : s.engine.micro_steps()) {
    act(micro);
  }
}

Misuse const misuses[] = {
    // ---- steps
    {"step() at once", [](Scene const& s) { s.engine.step(); }, "step() after 0 of 2 micro-steps of step 1"},
    {"step() too early",
     [](Scene const& s) {
       for (auto micro : s.engine.micro_steps()) {
         micro_step(micro, s.small);
         break;
       }
       s.engine.step();
     },
     "step() after 1 of 2 micro-steps of step 1"},
    {"step() in a micro-step", [](Scene const& s) { in_micro_step(s, [&](auto&) { s.engine.step(); }); },
     "step() while micro-step 1 of 2 is open: it belongs between passes"},
    {"step() in a guard",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         auto const p = micro.forward(s.small.units[0]);
         s.engine.step();
       });
     },
     "step() while the forward guard of unit \"block0\" is open"},
    {"finish() in a guard",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         static_cast<void>(micro.report_loss(1));
         auto const p = micro.backward(s.small.units[2]);
         s.engine.finish();
       });
     },
     "finish() while the backward guard of unit \"block2\" is open"},
    {"save_weights() in a micro-step",
     [](Scene const& s) { in_micro_step(s, [&](auto&) { s.engine.save_weights("/nowhere"); }); },
     "save_weights() while micro-step 1 of 2 is open"},
    {"load_weights() in an evaluation pass",
     [](Scene const& s) {
       for (auto pass : s.engine.evaluation(2)) {
         s.engine.load_weights("/nowhere");
       }
     },
     "load_weights() while evaluation pass 1 of 2 is open", By::all},
    {"a learning rate that is none",
     [](Scene const& s) {
       all_micro_steps(s.engine, s.small);
       s.engine.step({.learning_rate = NAN});
     },
     "step(): learning_rate is nan, must be 0 or more and finite"},
    // ---- passes
    {"one micro-step too many",
     [](Scene const& s) {
       all_micro_steps(s.engine, s.small);
       all_micro_steps(s.engine, s.small);
     },
     "a micro-step begins after 2 of 2 of step 1: call step() first"},
    {"a micro-step in a micro-step",
     [](Scene const& s) { in_micro_step(s, [&](auto&) { all_micro_steps(s.engine, s.small); }); },
     "a micro-step begins while micro-step 1 of 2 is open"},
    {"an evaluation pass in a micro-step",
     [](Scene const& s) { in_micro_step(s, [&](auto&) { static_cast<void>(s.engine.evaluation(1)); }); },
     "evaluation() while micro-step 1 of 2 is open"},
    {"a guard that outlives its pass",
     [](Scene const& s) {
       std::optional<Forward<float>> kept;
       for (auto pass : s.engine.evaluation(1)) {
         pass.report_loss(1);
         kept.emplace(pass.forward(s.small.units[2]));
       }
       s.engine.finish();
     },
     "finish(): the engine failed before: ", By::all},
    {"a guard that outlives its pass, in detail",
     [](Scene const& s) {
       std::optional<Forward<float>> kept;
       for (auto pass : s.engine.evaluation(1)) {
         pass.report_loss(1);
         kept.emplace(pass.forward(s.small.units[2]));
       }
       s.engine.finish();
     },
     "a pass ended while the evaluation guard of unit \"block2\" is open: guards must end before their pass", By::all},
    {"a loss on the device without an address",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         static_cast<void>(micro.report_loss(DeviceLoss{nullptr}));
       });
     },
     "report_loss(): the address of the mean is null"},
    // ---- guards
    {"two forward guards of a unit",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         auto const first = micro.forward(s.small.units[0]);
         auto const second = micro.forward(s.small.units[0]);
       });
     },
     "forward of unit \"block0\" while the forward guard of this unit is open"},
    {"a backward guard in a backward guard of the same unit",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         static_cast<void>(micro.report_loss(1));
         auto const first = micro.backward(s.small.units[2]);
         auto const second = micro.backward(s.small.units[2]);
       });
     },
     "backward of unit \"block2\" while the backward guard of this unit is open"},
    {"a guard that was moved from",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         auto first = micro.forward(s.small.units[0]);
         auto const second = std::move(first);
         static_cast<void>(first[s.small.weights[0]]);
       });
     },
     "a guard was used after it was moved from"},
    {"a unit of another model",
     [](Scene const& s) {
       SmallModel const other;
       in_micro_step(s, [&](auto& micro) { auto const p = micro.forward(other.units[0]); });
     },
     "forward: the unit belongs to another model"},
    {"a unit that is younger than the engine",
     [](Scene const& s) {
       auto const unit = s.small.model.unit("late");
       in_micro_step(s, [&](auto& micro) { auto const p = micro.forward(unit); });
     },
     "forward: the unit was added to the model after this engine was built"},
    {"a parameter of another model",
     [](Scene const& s) {
       SmallModel const other;
       in_micro_step(s, [&](auto& micro) {
         auto const p = micro.forward(s.small.units[0]);
         static_cast<void>(p[other.weights[0]]);
       });
     },
     "operator[]: the parameter belongs to another model"},
    {"a parameter of another unit",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         auto const p = micro.forward(s.small.units[0]);
         static_cast<void>(p[s.small.weights[1]]);
       });
     },
     "operator[]: unit \"block0\" neither holds nor ties parameter \"block1.w\", which belongs to unit \"block1\""},
    {"a parameter that is younger than the engine",
     [](Scene const& s) {
       auto const late = s.small.model.param(s.small.units[0], "late", {3}, Constant{0});
       in_micro_step(s, [&](auto& micro) {
         auto const p = micro.forward(s.small.units[0]);
         static_cast<void>(p[late]);
       });
     },
     "operator[]: the parameter was added to the model after this engine was built"},
    // ---- gradients
    {"the gradient of another unit's parameter",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         static_cast<void>(micro.report_loss(1));
         auto const p = micro.backward(s.small.units[2]);
         static_cast<void>(p.grad(s.small.weights[0]));
       });
     },
     "grad: unit \"block2\" neither holds nor ties parameter \"block0.w\""},
    {"the gradient of a frozen parameter",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         float const seed = micro.report_loss(1);
         backward(micro, s.small, 2, seed);
         auto const p = micro.backward(s.small.units[1]);
         static_cast<void>(p.grad(s.small.frozen));
       });
     },
     "grad of \"block1.frozen\", which is frozen"},
    {"a gradient before the loss",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         auto const p = micro.backward(s.small.units[2]);
         static_cast<void>(p.grad(s.small.weights[2]));
       });
     },
     "grad of \"block2.w\" before report_loss(): gradients must carry the seed that it returns"},
    {"backward too often",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         float const seed = micro.report_loss(1);
         backward(micro, s.small, 2, seed);
         backward(micro, s.small, 2, seed);
       });
     },
     "backward of unit \"block2\", call 2 in a micro-step: it declares no uses_per_micro_step, and its forward turns "
     "before the loss were 1"},
    {"a unit without backward",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         float const seed = micro.report_loss(1);
         backward(micro, s.small, 2, seed);
         backward(micro, s.small, 0, seed);
       });
     },
     "micro-step 1 of step 1 ended after 0 of 1 backward turns of unit \"block1\""},
    // ---- the loss
    {"report_loss() twice",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         static_cast<void>(micro.report_loss(1));
         static_cast<void>(micro.report_loss(1));
       });
     },
     "report_loss() for the second time: micro-step 1 of 2 is open"},
    {"a negative weight",
     [](Scene const& s) {
       in_micro_step(s, [](auto& micro) { static_cast<void>(micro.report_loss(1, {.weight = -0.5F})); });
     },
     "report_loss(): weight is -0.5, must be 0 or more and finite"},
    {"a weight that is no number",
     [](Scene const& s) {
       in_micro_step(s, [](auto& micro) { static_cast<void>(micro.report_loss(1, {.weight = NAN})); });
     },
     "report_loss(): weight is nan"},
    {"an infinite weight",
     [](Scene const& s) {
       for (auto pass : s.engine.evaluation(1)) {
         pass.report_loss(1, {.weight = HUGE_VALF});
       }
     },
     "report_loss(): weight is inf", By::all},
    {"a micro-step without a loss",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         for (auto u = s.small.units.size(); u-- > 0;) {
           auto const p = micro.backward(s.small.units[u]);
         }
       });
     },
     "micro-step 1 of step 1 ended without report_loss() or skip()"},
    // ---- skipping
    {"skip of a unit of another model",
     [](Scene const& s) {
       SmallModel const other;
       in_micro_step(s, [&](auto& micro) { micro.skip(other.units[0]); });
     },
     "skip(unit): the unit belongs to another model"},
    {"skip after backward",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         forward(micro, s.small);
         backward(micro, s.small, 2, micro.report_loss(1));
         micro.skip(s.small.units[2]);
       });
     },
     "skip of unit \"block2\", which has run backward in this micro-step"},
    {"skip twice",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         micro.skip(s.small.units[1]);
         micro.skip(s.small.units[1]);
       });
     },
     "skip of unit \"block1\", which was skipped already in this micro-step"},
    {"skip of the unit that is open",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         auto const p = micro.forward(s.small.units[0]);
         micro.skip(s.small.units[0]);
       });
     },
     "skip of unit \"block0\" while the forward guard of unit \"block0\" is open"},
    {"skip too late",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         { auto const p = micro.forward(s.small.units[2]); }
         micro.skip(s.small.units[1]);
       });
     },
     "skip of unit \"block1\" after a later unit's turn", By::all},
    {"forward of a skipped unit",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         micro.skip(s.small.units[1]);
         forward(micro, s.small);
       });
     },
     "forward of unit \"block1\", which this micro-step skips"},
    {"skip() after work",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         { auto const p = micro.forward(s.small.units[0]); }
         micro.skip();
       });
     },
     "skip() of a micro-step that has already started work: micro-step 1 of 2 is open"},
    {"work after skip()",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         micro.skip();
         auto const p = micro.forward(s.small.units[0]);
       });
     },
     "forward of unit \"block0\", which this micro-step skips"},
    {"report_loss() after skip()",
     [](Scene const& s) {
       in_micro_step(s, [&](auto& micro) {
         micro.skip();
         static_cast<void>(micro.report_loss(1));
       });
     },
     "report_loss() in a micro-step that was skipped"},
    // ---- evaluation
    {"an evaluation of nothing", [](Scene const& s) { static_cast<void>(s.engine.evaluation(0)); },
     "evaluation(0): allowed: 1 pass or more"},
    {"mean_loss() before the last pass",
     [](Scene const& s) {
       auto const evaluation = s.engine.evaluation(2);
       for (auto pass : evaluation) {
         pass.report_loss(1);
         break;
       }
       static_cast<void>(evaluation.mean_loss());
     },
     "mean_loss() after 1 of 2 evaluation passes", By::all},
    {"more evaluation passes than announced",
     [](Scene const& s) {
       auto const evaluation = s.engine.evaluation(1);
       for (int i = 0; i < 2; ++i) {
         for (auto pass : evaluation) {
           forward(pass, s.small);
           pass.report_loss(1);
         }
       }
     },
     "an evaluation pass begins, but evaluation() was given fewer passes", By::all},
    {"an evaluation pass without a loss",
     [](Scene const& s) {
       for (auto pass : s.engine.evaluation(1)) {
         forward(pass, s.small);
       }
       s.engine.finish();
     },
     "evaluation pass 1 of 1 ended without report_loss()", By::all},
    // ---- exceptions
    {"a guard that ends by an exception",
     [](Scene const& s) {
       try {
         in_micro_step(s, [&](auto& micro) {
           forward(micro, s.small);
           float const seed = micro.report_loss(1);
           backward(micro, s.small, 2, seed);
           auto const p = micro.backward(s.small.units[1]);
           throw std::runtime_error{"no more data"};
         });
       } catch (std::runtime_error const&) {
       }
       all_micro_steps(s.engine, s.small);
     },
     "the engine failed before: "},
    {"a guard that ends by an exception, in detail",
     [](Scene const& s) {
       try {
         in_micro_step(s, [&](auto& micro) {
           auto const p = micro.forward(s.small.units[1]);
           throw std::runtime_error{"no more data"};
         });
       } catch (std::runtime_error const&) {
       }
       s.engine.finish();
     },
     "the forward guard of unit \"block1\" ended by an exception: nothing of it was sent", By::all},
    {"a micro-step that ends by an exception",
     [](Scene const& s) {
       try {
         in_micro_step(s, [&](auto&) { throw std::runtime_error{"no more data"}; });
       } catch (std::runtime_error const&) {
       }
       all_micro_steps(s.engine, s.small);
     },
     "micro-step 1 of 2 is open and was ended by an exception: nothing more of it was sent"},
};

}  // namespace

TEST_CASE("a misuse is an error that names the unit and both states, at every stage, and ends all ranks") {
  for (auto const& misuse : misuses) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (int const world : {1, 3}) {
        INFO(fmt::format("{}, stage {}, {} ranks", misuse.name, stage, world));
        auto const config = small_config(stage);
        auto const outcome = run_job(world, [&](Job& job) {
          SmallModel small;
          Engine<float> engine{job, small.model, config};
          if (misuse.by == By::all || job.rank() == world - 1) {
            misuse.act({engine, small});
          } else {
            train(engine, small, 3);
          }
        });
        int guilty = 0;
        for (int rank = 0; rank < world; ++rank) {
          auto const& error = outcome[static_cast<std::size_t>(rank)];
          if (holds<ContractError>(error)) {
            ++guilty;
            CHECK_THAT(message_of(error), Catch::Contains(misuse.says));
            CHECK_THAT(message_of(error), Catch::StartsWith(fmt::format("[rank {}/{}] ", rank, world)));
            CHECK((misuse.by == By::all || rank == world - 1));
          } else {  // aborted by another rank's error, perhaps before its own
            CHECK(holds<PeerError>(error));
          }
        }
        CHECK(guilty >= 1);
      }
    }
  }
}

TEST_CASE("the other ranks are told why a rank's engine ended") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, small_config(stage)};
      for (auto micro : engine.micro_steps()) {
        if (job.rank() == 1) {
          auto const p = micro.forward(small.units[0]);
          throw std::runtime_error{"the disk burned"};
        }
        micro_step(micro, small);
      }
      engine.step();
      engine.finish();
    });
    CHECK(message_of(outcome[1]) == "the disk burned");
    CHECK(holds<PeerError>(outcome[0]));
    CHECK_THAT(message_of(outcome[0]), Catch::Contains("rank 1"));
    CHECK_THAT(message_of(outcome[0]), Catch::Contains("the forward guard of unit \"block0\" ended by an exception"));
  }
}

}  // namespace zeroth::testing
