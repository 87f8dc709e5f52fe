// SPDX-License-Identifier: Apache-2.0
/// The location of a mesh's ranks, the memory of each pipeline stage, and the files and models that are rejected.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "engine/partition.hpp"
#include "engine/pipeline_jobs.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

std::string told_model(Model const& model, int stages, std::string const& zeroth = "") {
  auto const config = config_of(stages, "", zeroth);
  return messages_of(run_job(2, [&](Job& job) {
    Mesh mesh{job, config};
    Engine<float> const engine{mesh, model, config};
  }));
}

}  // namespace

TEST_CASE("a mesh returns the coordinates of a rank") {
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

TEST_CASE("a stage whose first chunk trains nothing sums shared parameters after the step's last action") {
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

TEST_CASE("numbers of stages that do not divide the ranks are rejected with those that do") {
  auto const config = config_of(4);
  CHECK_THAT(messages_of(run_job(6,
                                 [&](Job& job) {
                                   Mesh const mesh{job, config};
                                 })),
             Contains("zeroth.mesh.pipeline is 4, which does not divide 6 ranks; allowed: 1, 2, 3, 6"));
}

TEST_CASE("an engine without a mesh rejects a file with a pipeline") {
  auto const config = config_of(2);
  Chain const chain;
  CHECK_THAT(messages_of(run_job(2,
                                 [&](Job& job) {
                                   Engine<float> const engine{job, chain.model, config};
                                 })),
             Contains("zeroth.mesh.pipeline is 2") && Contains("zeroth::Mesh"));
}

TEST_CASE("a program without static types sees the same messages") {
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

TEST_CASE("the plan of a pipeline matches what the ranks of each stage hold") {
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

TEST_CASE("automatic sizes follow the whole model's largest unit in every pipeline stage") {
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

TEST_CASE("models that cannot be divided into stages are rejected") {
  Model whole;
  for (auto const* const name : {"a", "b"}) {
    static_cast<void>(whole.param(whole.unit(name), name, {4}, Constant{1}));
  }
  CHECK_THAT(told_model(whole, 2),
             Contains("zeroth.mesh.pipeline is 2, but the model has 1 unit that a stage may begin with") &&
                 Contains("allowed: 1 to 1"));
  Model tied;
  auto const first = tied.unit("first");
  auto const last = tied.unit("last", {.input_per_sample = 4});
  auto const shared = tied.param(first, "shared", {4}, Constant{1});
  static_cast<void>(tied.param(last, "own", {4}, Constant{1}));
  tied.tie(last, shared);
  CHECK(told_model(tied, 2).empty());
  CHECK_THAT(told_model(tied, 2, R"(, "tied_gradients": "together")"),
             Contains("zeroth.tied_gradients is \"together\", but parameter \"shared\" belongs to unit \"first\" in "
                      "stage 0 of the pipeline and is tied to unit \"last\" in stage 1, and the two share no memory; "
                      "allowed: \"apart\", ties within one of them, or zeroth.mesh.pipeline 1"));
  Model open;
  static_cast<void>(open.param(open.unit("root", {.stays_open = true}), "root", {4}, Constant{1}));
  static_cast<void>(open.param(open.unit("next", {.input_per_sample = 4}), "next", {4}, Constant{1}));
  CHECK_THAT(told_model(open, 2), Contains("unit \"root\" stays open"));
}

TEST_CASE("the largest stage is as small as possible") {
  // Elements of the units: 260, 189, 160, 187, 144, 156, 12.
  Chain const chain;
  auto const first = [&](int stages) { return engine::first_units(chain.model.description(), {.stages = stages}); };
  CHECK(first(1) == std::vector<std::uint32_t>{0});
  CHECK(first(2) == std::vector<std::uint32_t>{0, 3});        // 609 and 499
  CHECK(first(4) == std::vector<std::uint32_t>{0, 1, 2, 4});  // 260, 189, 347 and 312
}

TEST_CASE("stages begin with the units that the file names") {
  Chain const chain;
  auto const first = [&](std::vector<std::uint32_t> units) {
    auto const stages = static_cast<int>(units.size());
    return engine::first_units(chain.model.description(), {.stages = stages, .first_units = std::move(units)});
  };
  CHECK(first({0, 5}) == std::vector<std::uint32_t>{0, 5});
  CHECK_THAT(thrown<ConfigError>([&] {
               first({0, 99});
             }),
             Contains("zeroth.pipeline.first_units has unit 99, but the model has 7; allowed: units that a chunk may "
                      "begin with; nearest: 6, \"tied\""));
  Model whole;
  for (auto const* const name : {"first", "middle", "last"}) {
    auto const unit = whole.unit(name, {.input_per_sample = std::string_view{name} == "last" ? 4 : 0});
    static_cast<void>(whole.param(unit, name, {4}, Constant{1}));
  }
  CHECK_THAT(thrown<ConfigError>([&] {
               static_cast<void>(engine::first_units(whole.description(), {.stages = 2, .first_units = {0, 1}}));
             }),
             Contains("has unit 1, \"middle\", which has no UnitOptions::input_per_sample; allowed: units that a chunk "
                      "may begin with; nearest: 2, \"last\""));
}

TEST_CASE("features without pipeline support are rejected by key") {
  CHECK(told(2, config_of(2), [](Engine<float>& engine, Chain const&, Mesh&) {
          expect_said(thrown<ConfigError>([&] { static_cast<void>(engine.micro_steps()); }),
                      {"micro_steps() of an engine whose zeroth.mesh.pipeline is 2; allowed: 1", "schedule()"});
        }) == "");
  CHECK_THAT(told(2, config_of(2, "", R"(, "replay_every": 4)"), [](auto&, auto const&, auto&) {}),
             Contains("zeroth.replay_every is 4, but zeroth.mesh.pipeline is 2"));
}

TEST_CASE("differences between ranks of different stages are reported") {
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
