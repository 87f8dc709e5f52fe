// SPDX-License-Identifier: Apache-2.0
/// Calls that engines on a mesh refuse while a step is made, and ranks that fail in it.
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "engine/pipeline_jobs.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

}  // namespace

TEST_CASE("calls that do not belong to the open action are rejected") {
  auto const in_action = [](Phase phase, auto const& body) {
    return told(2, config_of(2), [&](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
      for (auto work : engine.schedule()) {
        if (work.phase() == phase) {
          body(work, chain, mesh.place().stage == 0);
          throw Error{"enough"};
        }
        auto const samples = engine.micro_batch();
        Rows x = work.first() ? batch_at<float>(0, samples, 12) : rows_of(work.input());
        for (auto const unit : work.units()) {
          auto const p = work.forward(unit);
          x = apply<float>(chain.layers[unit.index()], p, x);
        }
        if (work.last()) {
          static_cast<void>(work.report_loss(1));
        } else {
          put(x, work.output());
        }
      }
    });
  };
  auto const forward = in_action(Phase::forward, [](auto& work, Chain const& chain, bool first) {
    if (!first) {
      return;
    }
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.input()); }), {"the first stage has none"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.input_gradient()); }), {"the first stage has none"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.output_gradient()); }),
                {"output_gradient() while forward of micro-step 1 of 3 is open: it belongs to backward actions"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.report_loss(1)); }),
                {"report_loss() while forward of micro-step 1 of 3 is open"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.backward(chain.layers[0].unit)); }),
                {"backward of unit \"layer0\" in an action that is forward"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.forward(chain.layers.back().unit)); }),
                {"forward of unit \"tied\", which belongs to stage 1; this rank is in stage 0"});
    Chain const other;
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.forward(other.layers[0].unit)); }),
                {"the unit belongs to another model"});
    auto const p = work.forward(chain.layers[0].unit);
    expect_said(thrown<ContractError>([&] { static_cast<void>(p[*chain.layers.back().bias]); }),
                {"operator[] of parameter \"tied.b\", which belongs to stage 1; this rank is in stage 0"});
  });
  auto const backward = in_action(Phase::backward, [](auto& work, Chain const&, bool first) {
    if (!first) {
      expect_said(thrown<ContractError>([&] { static_cast<void>(work.output()); }), {"the last stage has none"});
      expect_said(thrown<ContractError>([&] { static_cast<void>(work.output_gradient()); }),
                  {"the last stage has none"});
      expect_said(thrown<ContractError>([&] { static_cast<void>(work.report_loss(1)); }),
                  {"report_loss() while backward of micro-step 1 of 3 is open"});
    }
  });
  for (auto const& message : {forward, backward}) {
    CHECK_THAT(message, Contains("enough") && !Contains("was expected"));
  }
}

TEST_CASE("a program without divided backward gets an error that names what a zero-bubble schedule needs") {
  auto const config = config_of(2, "", R"(, "pipeline": {"schedule": "zb_h1"})");
  CHECK_THAT(told(2, config,
                  [](Engine<float>& engine, Chain const& chain, Mesh&) {
                    std::vector<Tape> tapes(static_cast<std::size_t>(engine.in_flight()));
                    for (auto work : engine.schedule()) {
                      if (work.phase() == Phase::forward) {
                        run_forward<float>(work, chain, tapes[static_cast<std::size_t>(work.slot())],
                                           engine.micro_batch(), 1);
                      } else {
                        static_cast<void>(work.backward(work.units().back()));
                      }
                    }
                  }),
             Contains("in an action that is backward_inputs: zeroth.pipeline.schedule divides backward") &&
                 Contains("Work::inputs() and Work::weights()"));
  auto const wrong = [&](auto const& open) {
    return told(2, config, [&](Engine<float>& engine, Chain const& chain, Mesh&) {
      std::vector<Tape> tapes(static_cast<std::size_t>(engine.in_flight()));
      for (auto work : engine.schedule()) {
        auto& tape = tapes[static_cast<std::size_t>(work.slot())];
        switch (work.phase()) {
          case Phase::forward: run_forward<float>(work, chain, tape, engine.micro_batch(), 1); break;
          case Phase::backward_weights: open(work); break;
          default: run_backward<float>(work, chain, tape);
        }
      }
    });
  };
  CHECK_THAT(wrong([](auto& work) { static_cast<void>(work.forward(work.units().front())); }),
             Contains("forward of unit") && Contains("in an action that is backward_weights"));
  CHECK_THAT(wrong([](auto&) {}), Contains("backward_weights of micro-step 1 of step 1 ended after 0 of 1 turns"));
}

TEST_CASE("units of another chunk and schedules that deadlock are reported") {
  auto const interleaved = Config::from_json(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
          "optimizer": {"type": "AdamW"}, "zeroth": {"mesh": {"pipeline": 2},
          "pipeline": {"schedule": "interleaved_1f1b", "chunks": 2}, "timeout_ms": 60000}})");
  CHECK_THAT(told(2, interleaved,
                  [](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
                    for (auto work : engine.schedule()) {
                      if (mesh.place().stage == 0) {
                        static_cast<void>(work.forward(chain.layers[2].unit));
                      }
                    }
                  }),
             Contains("forward of unit \"layer2\", which is not in chunk 0, the chunk of this action"));
  CHECK_THAT(told(2, interleaved.with(R"({"zeroth": {"pipeline": {"chunks": 4}}})"), [](auto&, auto const&, auto&) {}),
             Contains("zeroth.mesh.pipeline is 2 and zeroth.pipeline.chunks 4, but the model has 7 units that a stage "
                      "may begin with") &&
                 Contains("allowed: 1 to 1 stages of as many chunks"));
  Folder const folder;
  auto const config_with = [&](char const* name, char const* table) {
    std::ofstream{folder.path() / name} << table;
    return config_of(
        2, "",
        fmt::format(R"(, "pipeline": {{"schedule": "file", "schedule_file": "{}"}})", (folder.path() / name).string()));
  };
  CHECK_THAT(told(2, config_with("dead.csv", "0F0,0B0,0F1,0B1,0F2,0B2\n1F0,1F1,1B0,1B1,1F2,1B2\n"),
                  [](auto&, auto const&, auto&) {}),
             Contains("the schedule deadlocks: stage 0 waits in backward of micro-step 0"));
  auto const pipe = config_with("one.csv", "0F0,0B0,0F1,0B1,0F2,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  CHECK(told(2, pipe, [](auto& engine, auto const& chain, auto&) {
          run_actions(engine, chain, {}, 1, false);
          engine.step();
          engine.finish();
        }) == "");
}

TEST_CASE("an action that sends nothing, or omits a unit, ends the job with the action's name") {
  auto const leaves = [](bool output, bool unit) {
    return told(2, config_of(2), [&](Engine<float>& engine, Chain const&, Mesh&) {
      for (auto work : engine.schedule()) {
        for (auto const each : work.units()) {
          if (unit || each.index() != work.units().back().index()) {
            auto const p = work.forward(each);
          }
        }
        if (!work.last() && output) {
          static_cast<void>(work.output());
        }
        if (work.last()) {
          static_cast<void>(work.report_loss(1));
        }
      }
      engine.step();
    });
  };
  CHECK_THAT(leaves(false, true),
             Contains("forward of micro-step 1 of step 1 ended without writing output(), which is sent now"));
  CHECK_THAT(leaves(true, false),
             Contains("forward of micro-step 1 of step 1 ended after 0 of 1 turns of unit \"layer"));
}

TEST_CASE("a rank that fails in an action ends the ranks of all stages") {
  auto const message = told(4, config_of(2), [](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
    if (mesh.whole().rank() == 3) {
      throw Error{"rank 3 has had enough"};
    }
    run_actions(engine, chain, {}, 1, false);
    engine.step();
    engine.finish();
  });
  CHECK_THAT(message, Contains("rank 3 has had enough"));
}

TEST_CASE("a rank that fails between its actions ends the ranks of all stages, wherever they wait") {
  for (int const failing : {0, 1, 2, 3}) {
    INFO("rank " << failing);
    auto const message = told(4, config_of(4), [&](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
      for (int step = 1; step <= 3; ++step) {
        if (step == 2 && mesh.whole().rank() == failing) {
          int left = 3;  // actions
          for (auto work : engine.schedule()) {
            if (--left == 0) {
              throw Error{"out of luck"};
            }
            if (work.phase() == Phase::backward) {
              throw Error{"out of luck"};
            }
            for (auto const unit : work.units()) {
              auto const p = work.forward(unit);
            }
            if (work.last()) {
              static_cast<void>(work.report_loss(1));
            } else {
              static_cast<void>(work.output());
            }
          }
        }
        run_actions(engine, chain, {}, step, false);
        engine.step();
      }
      engine.finish();
    });
    CHECK_THAT(message, Contains("out of luck"));
  }
}

TEST_CASE("different calls of ranks of one stage are reported") {
  auto const message = told(4, config_of(2), [](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
    run_actions(engine, chain, {}, 1, false);
    engine.step(mesh.whole().rank() == 3 ? StepOptions{.learning_rate = 0.5F} : StepOptions{});
    engine.finish();
  });
  CHECK_THAT(message, Contains("ranks took different paths in step 1: as call ") &&
                          Contains("rank 2 made no further call, rank 3 made step() with a learning rate of 0.5"));
}

}  // namespace zeroth::testing
