// SPDX-License-Identifier: Apache-2.0
/// What engines on a mesh refuse, what each of their stages holds, and how a pipeline ends when a rank does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "engine/partition.hpp"
#include "parity/pipeline.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

Config config_of(int stages, std::string const& more = "", std::string const& ours = "") {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3, "optimizer": {{"type": "AdamW"}},
          "zero_optimization": {{"stage": 3}}, "zeroth": {{"mesh": {{"pipeline": {}}}, "timeout_ms": 60000 {}}} {}}})",
      stages, ours, more));
}

/// What `world` ranks throw, with a line for each.
std::string told(int world, Config const& config,
                 std::function<void(Engine<float>&, Chain const&, Mesh&)> const& body) {
  return messages_of(run_job(world, [&](Job& job) {
    Chain const chain;
    Mesh mesh{job, config};
    Engine<float> engine{mesh, chain.model, config};
    body(engine, chain, mesh);
  }));
}

/// For the threads of ranks, where Catch's own assertions race: throws unless `message` has all of `parts`.
void expect_said(std::string const& message, std::initializer_list<std::string_view> parts) {
  for (auto const part : parts) {
    if (message.find(part) == std::string::npos) {
      throw Error{fmt::format("\"{}\" was expected, and said was \"{}\"", part, message)};
    }
  }
}

std::string told_model(Model const& model, int stages, std::string const& zeroth = "") {
  auto const config = config_of(stages, "", zeroth);
  return messages_of(run_job(2, [&](Job& job) {
    Mesh mesh{job, config};
    Engine<float> const engine{mesh, model, config};
  }));
}

}  // namespace

TEST_CASE("a mesh says where a rank is") {
  std::vector<std::array<int, 6>> seen(6);
  auto const config = config_of(3);
  REQUIRE(messages_of(run_job(6, [&](Job& job) {
            Mesh mesh{job, config};
            auto const [index, size] = mesh.pipeline();
            seen[static_cast<std::size_t>(job.rank())] = {
                index, size, mesh.place().stage, mesh.place().data, mesh.data().world(), mesh.whole().world()};
          })).empty());
  for (int rank = 0; rank < 6; ++rank) {
    CHECK(seen[static_cast<std::size_t>(rank)] == std::array{rank / 2, 3, rank / 2, rank % 2, 2, 6});
  }
}

TEST_CASE("a stage whose first chunk trains nothing sums shared parameters when the step's last action is over") {
  auto const config = Config::from_json(R"({
      "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, "optimizer": {"type": "SGD"},
      "zeroth": {"mesh": {"pipeline": 2}, "pipeline": {"schedule": "interleaved_1f1b", "chunks": 2},
                 "timeout_ms": 60000}})");
  CHECK(messages_of(run_job(2, [&](Job& job) {
          Model model;
          auto const first = model.unit("first");
          auto const frozen = model.unit("frozen", {.input_per_sample = 4});
          auto const third = model.unit("third", {.input_per_sample = 4});
          auto const last = model.unit("last", {.input_per_sample = 4});
          auto const shared = model.param(first, "shared", {4}, Constant{1});
          static_cast<void>(model.param(frozen, "frozen", {4}, Constant{1}, {.trainable = false}));
          auto const own = model.param(third, "own", {4}, Constant{1});
          model.tie(last, shared);
          Mesh mesh{job, config};
          Engine<float> engine{mesh, model, config};
          auto const zero = [](View<float, 2> const& message) { std::fill_n(message.data(), message.count(), 0.0F); };
          for (int step = 0; step < 2; ++step) {
            for (auto work : engine.schedule()) {
              auto const unit = work.units().front();
              if (work.phase() == Phase::forward) {
                static_cast<void>(work.forward(unit));
                work.last() ? static_cast<void>(work.report_loss(1)) : zero(work.output());
                continue;
              }
              {
                auto const p = work.backward(unit);
                if (unit.index() != frozen.index()) {
                  auto const gradient = p.grad(unit.index() == third.index() ? own : shared);
                  std::fill_n(gradient.data(), 4, gradient.beta() + 1);
                }
              }
              if (!work.first()) {
                zero(work.input_gradient());
              }
            }
            static_cast<void>(engine.step());
          }
        })) == "");
}

TEST_CASE("stages that do not divide the ranks are refused with those that do") {
  auto const config = config_of(4);
  CHECK_THAT(messages_of(run_job(6,
                                 [&](Job& job) {
                                   Mesh const mesh{job, config};
                                 })),
             Contains("zeroth.mesh.pipeline is 4, which does not divide 6 ranks; allowed: 1, 2, 3, 6"));
}

TEST_CASE("an engine without a mesh refuses a file that asks for a pipeline") {
  auto const config = config_of(2);
  Chain const chain;
  CHECK_THAT(messages_of(run_job(2,
                                 [&](Job& job) {
                                   Engine<float> const engine{job, chain.model, config};
                                 })),
             Contains("zeroth.mesh.pipeline is 2") && Contains("zeroth::Mesh"));
}

TEST_CASE("a program that knows no types sees the same messages") {
  CHECK(messages_of(run_job(2, [](Job& job) {
          Chain const chain;
          auto const config = config_of(2);
          Mesh mesh{job, config};
          AnyEngine engine{mesh, chain.model, config};
          auto const all = [](AnyMessage const& message) {
            return std::span{static_cast<float*>(message.data),
                             static_cast<std::size_t>(message.samples * message.per_sample)};
          };
          auto const expect = [](std::span<float> values, int number) {
            if (values.empty() || std::ranges::count(values, static_cast<float>(number)) != std::ssize(values)) {
              throw Error{fmt::format("a message is not all {}", number)};
            }
          };
          for (auto work : engine.schedule()) {
            auto const units = work.units();
            int const number = 1 + work.micro_step() + (work.phase() == Phase::forward ? 0 : 10);
            if (work.phase() == Phase::forward) {
              for (auto const unit : units) {
                auto const p = work.forward(unit);
              }
              if (work.last()) {
                static_cast<void>(work.report_loss(1));
              } else {
                std::ranges::fill(all(work.output()), static_cast<float>(number));
              }
              if (!work.first()) {
                expect(all(work.input()), number);
              }
              continue;
            }
            if (!work.last()) {
              expect(all(work.output_gradient()), number);
            }
            for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
              auto const p = work.backward(*unit);
            }
            if (!work.first()) {
              std::ranges::fill(all(work.input_gradient()), static_cast<float>(number));
            }
          }
          engine.step();
          engine.finish();
        })) == "");
}

TEST_CASE("a plan of a pipeline is what the ranks of each stage hold") {
  Chain const chain;
  constexpr int data = 2;
  for (int const stages : {1, 2, 4}) {
    for (auto const* const schedule : {"gpipe", "1f1b"}) {
      for (int zero = 0; zero <= 3; ++zero) {
        auto const config =
            config_of(stages, R"(, "bf16": {"enabled": true})",
                      fmt::format(R"(, "pipeline": {{"schedule": "{}"}})", schedule))
                .with(fmt::format(R"({{"zero_optimization": {{"stage": {}, "reduce_bucket_size": "auto"}}}})", zero));
        INFO(fmt::format("{} stages, {}, ZeRO {}", stages, schedule, zero));
        int const world = stages * data;
        std::vector<MemoryBytes> planned(static_cast<std::size_t>(world)), peaks(planned);
        std::vector<int> in_flight(planned.size());
        REQUIRE(messages_of(run_job(world, [&](Job& job) {
                  auto const rank = static_cast<std::size_t>(job.rank());
                  Mesh mesh{job, config};
                  Engine<bf16> engine{mesh, chain.model, config};
                  for (int step = 0; step < 2; ++step) {
                    run_actions(engine, chain, {}, step, false);
                    engine.step();
                  }
                  engine.finish();
                  planned[rank] = engine.planned();
                  peaks[rank] = engine.peak();
                  in_flight[rank] = engine.in_flight();
                })).empty());
        auto const whole = plan(chain.model, config, world);
        CHECK(whole.world == world);
        CHECK(whole.data_ranks == data);
        CHECK(whole.units == 7);
        CHECK(whole.parameter_count == 1108);
        REQUIRE(whole.pipeline.size() == (stages == 1 ? 0U : static_cast<std::size_t>(stages)));
        for (std::size_t rank = 0; rank < planned.size(); ++rank) {
          INFO("rank " << rank);
          auto const& bytes = stages == 1 ? whole.bytes : whole.pipeline[rank / data].bytes;
          CHECK(bytes == planned[rank]);
          CHECK(bytes == peaks[rank]);
          CHECK(whole.bytes.total() >= bytes.total());
          CHECK((stages == 1 || whole.pipeline[rank / data].in_flight == in_flight[rank]));
        }
      }
    }
  }
}

TEST_CASE("sizes that are auto follow the whole model's largest unit at every stage") {
  Model model;
  auto const large = model.unit("large");
  static_cast<void>(model.param(large, "a", {5000}, Constant{0}));
  auto const small = model.unit("small", {.input_per_sample = 4});
  static_cast<void>(model.param(small, "b", {10}, Constant{0}));
  auto const of = [](int stages) {
    return config_of(stages, "")
        .with(R"({"zero_optimization": {"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}})");
  };
  auto const one = plan(model, of(1), 1).settings;
  auto const two = plan(model, of(2), 2);
  CHECK(one.prefetch_count > 4000);
  CHECK(two.settings.prefetch_count == one.prefetch_count);
  CHECK(two.largest_stage == 0);
  CHECK(two.pipeline[1].first_unit == "small");
  CHECK(two.pipeline[1].bytes.total() < two.bytes.total());
  CHECK_THAT(thrown<ConfigError>([&] { static_cast<void>(plan(model, of(2), 3)); }),
             Contains("zeroth.mesh.pipeline is 2, which does not divide 3 ranks; allowed: 1, 3"));
  CHECK_THAT(explain_plan(two), Contains("pipeline: 2 stages of 1 rank, 1f1b\n  stage 0: 1 unit from \"large\" on, "
                                         "5000 parameters, 2 micro-steps in flight, ") &&
                                    Contains("each rank of stage 0 holds:"));
  CHECK(plan(model, of(2), 2, {.device = DeviceKind::cuda}).notes.back().find("pipelines are for CPUs") !=
        std::string::npos);
}

TEST_CASE("models that cannot be cut are refused") {
  Model whole;
  for (auto const* const name : {"a", "b"}) {
    static_cast<void>(whole.param(whole.unit(name), name, {4}, Constant{1}));
  }
  CHECK_THAT(told_model(whole, 2),
             Contains("zeroth.mesh.pipeline is 2, and the model has 1 unit that a stage may begin "
                      "with") &&
                 Contains("allowed: 1 to 1"));
  Model tied;
  auto const first = tied.unit("first");
  auto const last = tied.unit("last", {.input_per_sample = 4});
  auto const shared = tied.param(first, "shared", {4}, Constant{1});
  static_cast<void>(tied.param(last, "own", {4}, Constant{1}));
  tied.tie(last, shared);
  CHECK(told_model(tied, 2).empty());
  CHECK_THAT(
      told_model(tied, 2, R"(, "tied_gradients": "together")"),
      Contains("zeroth.tied_gradients is \"together\", and parameter \"shared\" is of unit \"first\" in stage 0 of "
               "the pipeline, and tied by unit \"last\" in stage 1, which have no memory together; allowed are "
               "\"apart\", ties within one of them, or zeroth.mesh.pipeline 1"));
  Model open;
  static_cast<void>(open.param(open.unit("root", {.stays_open = true}), "root", {4}, Constant{1}));
  static_cast<void>(open.param(open.unit("next", {.input_per_sample = 4}), "next", {4}, Constant{1}));
  CHECK_THAT(told_model(open, 2), Contains("unit \"root\" stays open"));
}

TEST_CASE("stages have as few elements as the largest of them can have") {
  // Elements of the units: 260, 189, 160, 187, 144, 156, 12.
  Chain const chain;
  auto const first = [&](int stages) { return engine::first_units(chain.model.description(), {.stages = stages}); };
  CHECK(first(1) == std::vector<std::uint32_t>{0});
  CHECK(first(2) == std::vector<std::uint32_t>{0, 3});        // 609 and 499
  CHECK(first(4) == std::vector<std::uint32_t>{0, 1, 2, 4});  // 260, 189, 347 and 312
}

TEST_CASE("stages begin with the units that the file says") {
  Chain const chain;
  auto const first = [&](std::vector<std::uint32_t> units) {
    auto const stages = static_cast<int>(units.size());
    return engine::first_units(chain.model.description(), {.stages = stages, .first_units = std::move(units)});
  };
  CHECK(first({0, 5}) == std::vector<std::uint32_t>{0, 5});
  CHECK_THAT(
      thrown<ConfigError>([&] {
        first({0, 99});
      }),
      Contains("zeroth.pipeline.first_units has unit 99, and the model has 7; allowed are units that a chunk may "
               "begin with, the nearest of which is 6, \"tied\""));
  Model whole;
  for (auto const* const name : {"first", "middle", "last"}) {
    auto const unit = whole.unit(name, {.input_per_sample = std::string_view{name} == "last" ? 4 : 0});
    static_cast<void>(whole.param(unit, name, {4}, Constant{1}));
  }
  CHECK_THAT(
      thrown<ConfigError>([&] {
        static_cast<void>(engine::first_units(whole.description(), {.stages = 2, .first_units = {0, 1}}));
      }),
      Contains("has unit 1, \"middle\", which has no UnitOptions::input_per_sample; allowed are units that a chunk "
               "may begin with, the nearest of which is 2, \"last\""));
}

TEST_CASE("what a pipeline does not do yet is refused with the key") {
  CHECK(told(2, config_of(2), [](Engine<float>& engine, Chain const&, Mesh&) {
          expect_said(thrown<ConfigError>([&] { static_cast<void>(engine.micro_steps()); }),
                      {"micro_steps() of an engine whose zeroth.mesh.pipeline is 2: allowed there is 1", "schedule()"});
        }) == "");
  CHECK_THAT(told(2, config_of(2, "", R"(, "replay_every": 4)"), [](auto&, auto const&, auto&) {}),
             Contains("zeroth.replay_every is 4, and zeroth.mesh.pipeline is 2"));
}

TEST_CASE("calls that are not of the action that is open are refused") {
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
                {"output_gradient() while forward of micro-step 1 of 3 is open: it is of backward actions"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.report_loss(1)); }),
                {"report_loss() while forward of micro-step 1 of 3 is open"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.backward(chain.layers[0].unit)); }),
                {"backward of unit \"layer0\" in an action that is forward"});
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.forward(chain.layers.back().unit)); }),
                {"forward of unit \"tied\", which is of stage 1; this rank is of stage 0"});
    Chain const other;
    expect_said(thrown<ContractError>([&] { static_cast<void>(work.forward(other.layers[0].unit)); }),
                {"the unit belongs to another model"});
    auto const p = work.forward(chain.layers[0].unit);
    expect_said(thrown<ContractError>([&] { static_cast<void>(p[*chain.layers.back().bias]); }),
                {"operator[] of parameter \"tied.b\", which is of stage 1; this rank is of stage 0"});
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

TEST_CASE("a program without the halves of backward is told what a zero-bubble schedule needs") {
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

TEST_CASE("units of another chunk, and schedules that do not end, are told") {
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
             Contains("forward of unit \"layer2\", which is not of chunk 0, that this action is of"));
  CHECK_THAT(
      told(2, interleaved.with(R"({"zeroth": {"pipeline": {"chunks": 4}}})"), [](auto&, auto const&, auto&) {}),
      Contains("zeroth.mesh.pipeline is 2 and zeroth.pipeline.chunks 4, and the model has 7 units that a stage may "
               "begin with") &&
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
             Contains("the schedule does not end: stage 0 waits in backward of micro-step 0"));
  auto const pipe = config_with("one.csv", "0F0,0B0,0F1,0B1,0F2,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  CHECK(told(2, pipe, [](auto& engine, auto const& chain, auto&) {
          run_actions(engine, chain, {}, 1, false);
          engine.step();
          engine.finish();
        }) == "");
}

TEST_CASE("an action that sends nothing, or leaves a unit out, ends the job with its name") {
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

TEST_CASE("ranks of a stage that make different calls are told") {
  auto const message = told(4, config_of(2), [](Engine<float>& engine, Chain const& chain, Mesh& mesh) {
    run_actions(engine, chain, {}, 1, false);
    engine.step(mesh.whole().rank() == 3 ? StepOptions{.learning_rate = 0.5F} : StepOptions{});
    engine.finish();
  });
  CHECK_THAT(message, Contains("ranks took different paths in step 1: as call ") &&
                          Contains("rank 2 made no further call, rank 3 made step() with a learning rate of 0.5"));
}

TEST_CASE("values that a program writes are read on the ranks of all stages, and train on") {
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
                      {"write() of parameter \"layer0.b\" with 3 values: it has 20"});
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
    CHECK(report.loss == 1.5F);  // of micro-steps 1 and 2
    CHECK_FALSE(report.stop);
  }
  CHECK(means == std::vector{1.5, 1.5, 1.5, 1.5});
}

TEST_CASE("ranks that differ between stages are told") {
  CHECK_THAT(messages_of(run_job(2,
                                 [](Job& job) {
                                   auto const config =
                                       config_of(2, fmt::format(R"(, "gradient_clipping": {})", 1 + job.rank()));
                                   Chain const chain;
                                   Mesh mesh{job, config};
                                   Engine<float> const engine{mesh, chain.model, config};
                                 })),
             Contains("ranks 0 and 1 built an engine from different stage files"));
}

}  // namespace zeroth::testing
