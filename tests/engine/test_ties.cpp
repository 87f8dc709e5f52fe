// SPDX-License-Identifier: Apache-2.0
/// Parameters that units of several stages use, and uses with separately summed gradients.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/share.hpp"
#include "parity/pipeline_calls.hpp"
#include "shard/layout.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using shard::Layout;

Config config_of(int stages, int zero, std::string const& more = "", std::string const& zeroth = "") {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "optimizer": {{"type": "AdamW"}},
          "zero_optimization": {{"stage": {}}}, "zeroth": {{"mesh": {{"pipeline": {}}}, "tied_gradients": "apart",
          "timeout_ms": 60000 {}}} {}}})",
      zero, stages, zeroth, more));
}

/// Two stages: the first makes `shared`, the second uses it, too.
struct SharedModel {
  Model model{3};
  Unit first, last;
  Param<1> own, shared;

  explicit SharedModel(Init const& init)
      : first{model.unit("first")},
        last{model.unit("last", {.input_per_sample = 1})},
        own{model.param(last, "own", {5}, Constant{1})},
        shared{model.param(first, "shared", {300}, init)} {
    model.tie(last, shared);
  }
};

/// The errors of `world` ranks, one line each.
template <class F>
std::string told(int world, Config const& config, F const& body) {
  return messages_of(run_job(world, [&](Job& job) {
    Mesh mesh{job, config};
    body(job, mesh);
  }));
}

}  // namespace

TEST_CASE("a stage's layout lists the other stages that use its parameters") {
  Model model;
  auto const a = model.unit("a"), b = model.unit("b", {.input_per_sample = 1}), c = model.unit("c");
  auto const shared = model.param(b, "shared", {300}, Constant{1});
  auto const fixed = model.param(a, "fixed", {7}, Constant{1}, {.trainable = false});
  for (auto const unit : {a, c}) {
    model.tie(unit, shared);
  }
  model.tie(c, fixed);
  engine::Share first{model.description(), {.stages = 2, .tied_gradients = TiedGradients::apart}, 0};
  engine::Share last{model.description(), {.stages = 2, .tied_gradients = TiedGradients::apart}, 1};
  auto const of_first = first.take_part(), of_last = last.take_part();
  Layout const one{of_first, 2, {.tied = TiedGradients::apart}}, two{of_last, 2, {.tied = TiedGradients::apart}};
  auto const text = [](Layout const& layout) {
    std::vector<std::string> flats;
    for (auto const& flat : layout.flats()) {
      flats.push_back(fmt::format("{} {}+{}+{}{}", flat.name, flat.trainable.used_count, flat.frozen.used_count,
                                  flat.apart.used_count, flat.speaks ? "" : " elsewhere"));
    }
    return flats;
  };
  using Names = std::vector<std::string>;
  CHECK(text(one) == Names{"fixed 0+7+0", "shared 300+0+0"});
  CHECK(text(two) == Names{"shared 300+0+0 elsewhere", "fixed 0+7+0 elsewhere", "shared (c) 0+0+300"});
  for (auto const* const layout : {&one, &two}) {
    REQUIRE(layout->ties().size() == 1);
    auto const& tie = layout->ties().front();
    CHECK(tie.stages == std::vector{0, 1});
    REQUIRE(tie.uses.size() == 3);
    CHECK(tie.uses[0].stage == 0);
    CHECK(tie.uses[1].stage == 1);
    CHECK(tie.uses[2].stage == 1);
    auto const& flat = layout->flats()[tie.flat];
    CHECK(flat.trainable.params.front().element == 0);  // counted in the whole model, because rounding noise depends on
                                                        // it
    CHECK(flat.trainable.shard_count == 256);
  }
  CHECK(two.flats()[two.ties().front().uses[2].flat].name == "shared (c)");
  CHECK(of_last.count == 307);
}

TEST_CASE("memory for ties is planned in every stage that has them, and without a mesh") {
  Chain const chain{Chain::Ties::across};
  auto const parameters = [&](int stages, int world) { return plan(chain.model, config_of(stages, 0), world); };
  std::int64_t count = 0;
  for (auto const& param : chain.model.description().params) {
    count += param.count;
  }
  CHECK(parameters(1, 1).parameter_count == count);
  CHECK(parameters(2, 2).parameter_count == count);
  CHECK(parameters(2, 2).checkpoint_bytes == parameters(1, 1).checkpoint_bytes);
  auto const rows = parameters(2, 2).pipeline;
  CHECK(rows[0].parameter_count + rows[1].parameter_count > count + 144);
  for (int const stages : {1, 2, 4}) {
    for (int zero = 0; zero <= 3; ++zero) {
      auto const* const poison = zero == 2 ? R"(, "poison": true)" : "";
      auto const config = config_of(stages, zero, R"(, "bf16": {"enabled": true})", poison);
      INFO(fmt::format("{} stages, ZeRO {}", stages, zero));
      auto const world = static_cast<std::size_t>(2 * stages);
      std::vector<MemoryBytes> planned(world), peaks(world);
      REQUIRE(told(2 * stages, config, [&](Job& job, Mesh& mesh) {
                Engine<bf16> engine{mesh, chain.model, config};
                for (int step = 0; step < 2; ++step) {
                  run_actions(engine, chain, {}, step, false);
                  engine.step();
                }
                engine.finish();
                planned[static_cast<std::size_t>(job.rank())] = engine.planned();
                peaks[static_cast<std::size_t>(job.rank())] = engine.peak();
              }) == "");
      auto const whole = plan(chain.model, config, 2 * stages);
      for (std::size_t rank = 0; rank < world; ++rank) {
        CHECK(planned[rank] == peaks[rank]);
        CHECK(planned[rank] == (stages == 1 ? whole.bytes : whole.pipeline[rank / 2].bytes));
      }
    }
  }
}

TEST_CASE("a parameter of two stages is read from either and written to both") {
  for (int const zero : {0, 3}) {
    auto const config = config_of(2, zero);
    std::vector<std::vector<float>> read(4);
    REQUIRE(told(4, config, [&](Job& job, Mesh& mesh) {
              SharedModel const model{Normal{1}};
              Engine<float> engine{mesh, model.model, config};
              std::vector<float> values(300, 0.5F);
              values[299] = 7;
              engine.write(model.shared, values);
              for (auto work : engine.schedule()) {  // the values that both stages compute with
                for (auto const unit : work.units()) {
                  auto const p = work.forward(unit);
                  auto const view = p[model.shared];
                  read[static_cast<std::size_t>(job.rank())].assign(view.data(), view.data() + 300);
                  if (work.last() && work.phase() == Phase::forward) {
                    static_cast<void>(work.report_loss(0));
                  }
                }
                if (work.phase() == Phase::forward && !work.last()) {
                  static_cast<void>(work.output());
                } else if (work.phase() == Phase::backward) {
                  for (auto const unit : work.units()) {
                    static_cast<void>(work.backward(unit));
                  }
                  if (!work.first()) {
                    static_cast<void>(work.input_gradient());
                  }
                }
              }
              engine.step();
              std::vector<float> back(300);
              engine.read(model.shared, back);
              engine.finish();
            }) == "");
    for (auto const& values : read) {
      CHECK(values == read.front());
      CHECK(values[299] == 7);
      CHECK(values[0] == 0.5F);
    }
  }
}

TEST_CASE("different values of a parameter that stages share are reported, initially and in write()") {
  auto const config = config_of(2, 2);
  auto const written = told(4, config, [&](Job& job, Mesh& mesh) {
    SharedModel const model{Normal{1}};
    Engine<float> engine{mesh, model.model, config};
    engine.write(model.shared, std::vector<float>(300, static_cast<float>(job.rank() / 2)));
  });
  CHECK_THAT(written, Contains("gave different values for parameter \"shared\"") &&  // whichever place detects it first
                          (Contains("write(): ranks 0 and 2 ") || Contains("write(): ranks 1 and 3 ")));
  auto const begun = told(4, config, [&](Job& job, Mesh& mesh) {
    SharedModel const model{PerElement{
        [stage = job.rank() / 2](std::int64_t element) { return element == 137 && stage == 1 ? 2.0F : 1.0F; }}};
    Engine<float> const engine{mesh, model.model, config};
  });
  CHECK_THAT(begun, Contains("parameter \"shared\" differs from rank") &&
                        Contains("after initialisation: ranks that should hold the same do not"));
}

}  // namespace zeroth::testing
