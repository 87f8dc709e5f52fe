// SPDX-License-Identifier: Apache-2.0
/// Results of calls between steps on a mesh, and the calls that are rejected.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engine/pipeline_jobs.hpp"
#include "engine/safetensors_reader.hpp"
#include "parity/pipeline_calls.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"
#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

}  // namespace

TEST_CASE("an evaluation pass runs the units of its stage, and its loss and metrics are those of all stages") {
  std::vector<float> losses(4);
  std::vector<double> means(4);
  CHECK(told(4, config_of(2), [&](Engine<float>& engine, Chain const&, Mesh& mesh) {
          auto const rank = static_cast<std::size_t>(mesh.whole().rank());
          auto const ranks = engine.add_metric("ranks");
          auto const evaluation = engine.evaluation(3);
          int done = 0;
          for (auto pass : evaluation) {
            if (pass.first() != (mesh.place().stage == 0) || pass.last() != (mesh.place().stage == 1) ||
                pass.units().size() != (pass.first() ? 3 : 4)) {
              throw Error{"another stage's"};
            }
            if (pass.first_sample() != 2 * (2 * done + mesh.place().data)) {
              throw Error{"other samples"};
            }
            for (auto const unit : pass.units()) {
              auto const p = pass.forward(unit);
            }
            pass.report_metric(ranks, static_cast<double>(rank));
            if (pass.last()) {  // a pass that did not call input() receives it all the same
              pass.report_loss(static_cast<float>(done), {.weight = done == 0 ? 0.0F : 1.0F});
            } else {
              static_cast<void>(pass.output());
            }
            ++done;
          }
          losses[rank] = evaluation.mean_loss();
          means[rank] = evaluation.metrics()[ranks];
        }) == "");
  CHECK(losses == std::vector(4, 1.5F));
  CHECK(means == std::vector(4, 1.5));
}

TEST_CASE("a trace has a track for the messages of each channel") {
  std::vector<std::vector<Span>> spans(2);
  CHECK(told(2, config_of(2), [&](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
          Timeline timeline;
          engine.trace(&timeline);
          run_actions(engine, chain, {}, 1, true);
          engine.step();
          engine.finish();
          engine.trace(nullptr);
          spans[static_cast<std::size_t>(mesh.place().stage)] = timeline.spans();
        }) == "");
  auto const messages = [&](std::size_t stage) {
    std::map<std::string, int> by_track;
    for (auto const& span : spans[stage]) {
      if (span.what == "send" || span.what == "receive") {
        ++by_track[span.stream + ": " + span.what + " " + span.unit];
      }
    }
    return by_track;
  };
  using ByTrack = std::map<std::string, int>;
  CHECK(messages(0) == ByTrack{{"send output: send layer3", 3}, {"receive gradient: receive layer3", 3}});
  CHECK(messages(1) == ByTrack{{"receive input: receive layer3", 3}, {"send gradient: send layer3", 3}});
}

TEST_CASE("an evaluation, and each of its passes, is rejected while messages of a step are under way") {
  CHECK(told(2, config_of(2), [](Engine<float>& engine, Chain const& chain, Mesh&) {
          constexpr auto* said = "after 1 actions of step 1, whose messages between pipeline stages are";
          auto const left = engine.evaluation(1);
          for (auto work : engine.schedule()) {
            auto const rows = go_forward(work, chain, engine.micro_batch());
            if (work.last()) {
              static_cast<void>(work.report_loss(1));
            } else {
              put(rows, work.output());
            }
            break;
          }
          expect_said(thrown<ContractError>([&] { static_cast<void>(engine.evaluation(1)); }), {"evaluation() "});
          expect_said(thrown<ContractError>([&] { static_cast<void>(engine.evaluation(1)); }), {said});
          expect_said(thrown<ContractError>([&] { static_cast<void>(*left.begin()); }), {said});
        }) == "");
}

TEST_CASE("a pass that sends nothing, or reports its loss in another stage, ends the job with the pass's name") {
  auto const passes = [](auto const& body) {
    return told(2, config_of(2), [&](Engine<float>& engine, Chain const& chain, Mesh&) {
      auto const evaluation = engine.evaluation(2);
      for (auto pass : evaluation) {
        if (pass.first()) {
          for (auto const unit : pass.units()) {
            auto const p = pass.forward(unit);
          }
          body(pass);
        } else {
          go_forward(pass, chain, engine.micro_batch());
          pass.report_loss(1);
        }
      }
    });
  };
  CHECK_THAT(passes([](auto&) {}),
             Contains("evaluation pass 1 of 2 ended without writing output(), which is sent now"));
  CHECK_THAT(passes([](auto& pass) { pass.report_loss(1); }),
             Contains("report_loss() while evaluation pass 1 of 2 is open: only forward of the last chunk"));
  CHECK_THAT(passes([](auto& pass) { static_cast<void>(pass.input()); }),
             Contains("input(): the first stage has none: it reads the batch"));
}

TEST_CASE("a rank that fails in an evaluation ends the ranks of all stages, wherever they wait") {
  for (int const failing : {0, 1, 2, 3}) {
    INFO("rank " << failing);
    CHECK_THAT(told(4, config_of(2),
                    [&](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
                      for (int step = 1; step <= 2; ++step) {
                        run_actions(engine, chain, {}, step, false);
                        engine.step();
                        for (auto pass : engine.evaluation(3)) {
                          if (step == 2 && mesh.whole().rank() == failing) {
                            throw Error{"out of luck"};
                          }
                          auto const rows = go_forward(pass, chain, engine.micro_batch());
                          pass.last() ? pass.report_loss(1) : put(rows, pass.output());
                        }
                      }
                      engine.finish();
                    }),
               Contains("out of luck"));
  }
}

TEST_CASE("norms exist for trained parameters only, and are the same on ranks of all stages") {
  CHECK(told(2, config_of(2), [](Engine<float>& engine, Chain const& chain, Mesh&) {
          expect_said(thrown<ContractError>([&] { static_cast<void>(engine.gradient_norm()); }),
                      {"gradient_norm() after"});
          run_actions(engine, chain, {}, 1, false);
          expect_said(thrown<ContractError>([&] { static_cast<void>(engine.gradient_norm(*chain.layers[1].bias)); }),
                      {"gradient_norm(param): parameter \"layer1.b\" is frozen and has no gradient"});
          Chain const other;
          expect_said(thrown<ContractError>([&] { static_cast<void>(engine.gradient_norm(*other.layers[0].bias)); }),
                      {"gradient_norm(param): the parameter belongs to another model"});
        }) == "");
  CHECK_THAT(told(2, config_of(2),
                  [](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
                    run_actions(engine, chain, {}, 1, false);
                    auto const& layer = chain.layers[mesh.place().stage == 0 ? 2 : 4];
                    static_cast<void>(engine.gradient_norm(*layer.weight));
                  }),
             Contains("gradient_norm(param): rank 0 asked for \"layer2.w\", rank 1 for \"layer4.w\""));
}

TEST_CASE("weights larger than one message between stages are saved to one file and loaded from it") {
  constexpr std::int64_t count = 150'001;
  Folder const folder;
  auto const config = config_of(2);
  std::vector<std::vector<float>> read(6);
  CHECK(messages_of(run_job(6, [&](Job& job) {
          Model model{3};
          static_cast<void>(model.param(model.unit("a"), "a", {7}, Normal{1}));
          auto const last = model.unit("b", {.input_per_sample = 1});
          static_cast<void>(model.param(last, "b", {2}, Normal{1}));
          auto const large = model.param(last, "large", {count}, Constant{0});
          Mesh mesh{job, config};
          Engine<float> engine{mesh, model, config};
          std::vector<float> values(count);
          std::iota(values.begin(), values.end(), 0.0F);
          engine.write(large, values);
          engine.save_weights(folder / "weights");
          engine.write(large, std::vector<float>(count));
          engine.load_weights(folder / "weights");
          engine.read(large, values);
          read[static_cast<std::size_t>(job.rank())] = values;
        })) == "");
  std::vector<float> expected(count);
  std::iota(expected.begin(), expected.end(), 0.0F);
  for (auto const& each : read) {
    CHECK(each == expected);
  }
  engine::SafetensorsReader const file{folder / "weights"};
  std::vector<float> values(count);
  file.read(file.tensors().at("large"), 0, values);
  CHECK(values == expected);
}

TEST_CASE("a weight file that only one stage cannot use is the same error in all stages, and changes nothing") {
  Folder const folder;
  std::vector<std::string> loads(4), saves(4);
  CHECK(told(4, config_of(2), [&](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
          auto const rank = static_cast<std::size_t>(mesh.whole().rank());
          engine.save_weights(folder / "weights");
          auto const mine = rank == 2 ? folder / "none" : folder / "weights";
          loads[rank] = thrown<SystemError>([&] { engine.load_weights(mine); });
          saves[rank] = thrown<SystemError>([&] { engine.save_weights(folder / "no/weights"); });
          run_actions(engine, chain, {}, 1, false);
          engine.step();
          engine.finish();
          engine.load_weights(folder / "weights");
        }) == "");
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK_THAT(loads[rank], Contains("load_weights() failed and changed nothing: rank 2: ") && Contains("none"));
    CHECK_THAT(saves[rank], Contains("save_weights() failed and changed nothing: rank 0: "));
  }
  Model other;
  static_cast<void>(other.param(other.unit("a"), "a", {7}, Normal{1}));
  static_cast<void>(other.param(other.unit("b", {.input_per_sample = 1}), "b", {2}, Normal{1}));
  auto const config = config_of(2);
  CHECK_THAT(messages_of(run_job(2,
                                 [&](Job& job) {
                                   Mesh mesh{job, config};
                                   Engine<float> engine{mesh, other, config};
                                   engine.load_weights(folder / "weights");
                                 })),
             Contains("\"a\" is missing") && Contains("\"b\" is missing") &&
                 Contains("\"tied.b\" is not a parameter of the model"));
}

TEST_CASE("a stop that a rank of one stage requests reaches the ranks of all stages") {
  std::vector<std::vector<bool>> stops(4);
  CHECK(told(4, config_of(2), [&](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
          auto const rank = static_cast<std::size_t>(mesh.whole().rank());
          for (int step = 1; step <= 3; ++step) {
            if (step == 2 && rank == 3) {
              mesh.data().request_stop();
            }
            run_actions(engine, chain, {}, step, false);
            engine.step();
            stops[rank].push_back(engine.finish()->stop);
          }
        }) == "");
  CHECK(stops == std::vector(4, std::vector{false, true, true}));
}

TEST_CASE("a stage whose units have no parameters takes part in files") {
  Folder const folder;
  auto const config = config_of(2);
  std::vector<float> read(4);
  for (bool const restores : {false, true}) {
    CHECK(messages_of(run_job(4, [&](Job& job) {
            Model model{3};
            auto const first = model.unit("a");
            auto const weight = model.param(first, "a", {7}, Constant{2});
            static_cast<void>(model.unit("loss", {.input_per_sample = 1}));
            Mesh mesh{job, config};
            Engine<float> engine{mesh, model, config};
            if (restores) {
              engine.write(weight, std::vector<float>(7));
              engine.restore(folder.path());
              engine.save_weights(folder / "weights");
              engine.load_weights(folder / "weights");
              std::vector<float> values(7);
              engine.read(weight, values);
              read[static_cast<std::size_t>(job.rank())] = values[6];
            } else {
              engine.save(folder.path()).wait();
            }
          })) == "");
  }
  CHECK(read == std::vector<float>(4, 2));
  checkpoint::Reader reader{folder / "step_00000000"};
  CHECK(reader.record().contents.stages() == 2);
  for (int place = 0; place < 4; ++place) {
    CHECK(reader.damage(place, true).empty());
  }
}

TEST_CASE("values that a program writes are read on ranks of all stages, and training continues with them") {
  auto const config = config_of(2);
  std::vector<std::vector<float>> read(4);
  CHECK(messages_of(run_job(4, [&](Job& job) {
          Chain const chain;
          Mesh mesh{job, config};
          Engine<float> engine{mesh, chain.model, config};
          auto& mine = read[static_cast<std::size_t>(job.rank())];
          for (auto const* const param : {&*chain.layers.front().bias, &*chain.layers.back().bias}) {  // of both stages
            std::vector<float> values(static_cast<std::size_t>(param->shape()[0]));
            std::iota(values.begin(), values.end(), 1.0F);
            engine.write(*param, values);
            std::ranges::fill(values, 0.0F);
            engine.read(*param, values);
            mine.insert(mine.end(), values.begin(), values.end());
          }
          std::vector<float> wrong(3);
          expect_said(thrown<ContractError>([&] { engine.write(*chain.layers.front().bias, wrong); }),
                      {"write() of parameter \"layer0.b\" got 3 values, but it has 20"});
          run_actions(engine, chain, {}, 1, false);
          engine.step();
          engine.finish();
        })) == "");
  std::vector<float> expected(20 + 12);
  std::iota(expected.begin(), expected.begin() + 20, 1.0F);
  std::iota(expected.begin() + 20, expected.end(), 1.0F);
  for (auto const& mine : read) {
    CHECK(mine == expected);
  }
}

TEST_CASE("metrics, weights and stops of a pipeline are those of all stages") {
  auto const config = config_of(2);
  std::vector<StepReport> reports(4);
  std::vector<double> means(4);
  CHECK(messages_of(run_job(4, [&](Job& job) {
          Chain const chain;
          Mesh mesh{job, config};
          Engine<float> engine{mesh, chain.model, config};
          auto const ranks = engine.add_metric("ranks");
          for (auto work : engine.schedule()) {
            work.report_metric(ranks, job.rank());
            if (work.phase() == Phase::forward) {
              for (auto const unit : work.units()) {
                auto const p = work.forward(unit);
              }
              if (work.last()) {
                static_cast<void>(work.report_loss(static_cast<float>(work.micro_step()),
                                                   {.weight = work.micro_step() == 0 ? 0.0F : 1.0F}));
              } else {
                static_cast<void>(work.output());
              }
            } else {
              auto const units = work.units();
              for (auto at = units.rbegin(); at != units.rend(); ++at) {
                auto const p = work.backward(*at);
              }
              if (!work.first()) {
                static_cast<void>(work.input_gradient());
              }
            }
          }
          engine.step();
          auto const place = static_cast<std::size_t>(job.rank());
          reports[place] = *engine.finish();
          means[place] = reports[place].metrics[ranks];
        })) == "");
  for (auto const& report : reports) {
    CHECK(report.loss == 1.5F);  // mean of micro-steps 1 and 2: the first one has weight 0
    CHECK_FALSE(report.stop);
  }
  CHECK(means == std::vector{1.5, 1.5, 1.5, 1.5});
}

}  // namespace zeroth::testing
