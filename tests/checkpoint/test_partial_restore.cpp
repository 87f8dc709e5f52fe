// SPDX-License-Identifier: Apache-2.0
/// Restores of weights alone, of some parameters, and of parameters with other names.
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/log.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

struct Described {
  std::string name;
  std::int64_t count;
  bool trainable = true;
};

/// A unit for each parameter, with gradients that depend on its name.
struct Small {
  Model model{9};
  std::vector<Unit> units;
  std::vector<Param<1>> params;
  std::vector<Described> described;

  explicit Small(std::vector<Described> const& of) : described{of} {
    for (auto const& each : of) {
      units.push_back(model.unit("unit of " + each.name));
      params.push_back(model.param(units.back(), each.name, {each.count}, Normal{1}, {.trainable = each.trainable}));
    }
  }

  template <class T, class G>
  std::optional<StepReport> step(Engine<T, G>& engine) const {
    for (auto micro : engine.micro_steps()) {
      for (auto const unit : units) {
        static_cast<void>(micro.forward(unit));
      }
      float const seed = micro.report_loss(1);
      for (auto i = units.size(); i-- > 0;) {
        auto const p = micro.backward(units[i]);
        for (std::int64_t e = 0; described[i].trainable && e < described[i].count; ++e) {
          p.grad(params[i]).data()[e] = from_float<G>(seed * noise(static_cast<std::int64_t>(described[i].count), e));
        }
      }
    }
    return engine.step();
  }
  using Values = std::map<std::string, std::vector<float>>;
  [[nodiscard]] Values read(AnyEngine& engine) const {
    Values all;
    for (std::size_t i = 0; i < params.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(described[i].count));
      engine.read(params[i], values);
      all[described[i].name] = values;
    }
    return all;
  }
};

Config file(int stage, char const* optimizer, char const* more = "", char const* zeroth = "") {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, {} "zero_optimization": {{"stage": {}}},
           "optimizer": {{"type": "{}", "params": {{"lr": 0.01}}}}, "zeroth": {{"timeout_ms": 60000{}}}}})",
      more, stage, optimizer, zeroth));
}

/// Rank 0's result of `run(engine, rank)` on `world` ranks; and a message, if a rank has failed.
struct Result {
  std::string message;
  Small::Values values;
};
Result on(int world, Config const& config, Small const& small,
          std::function<Small::Values(AnyEngine&, int rank)> const& begin, int steps = 0) {
  Result result;
  auto const outcome = run_job(world, [&](Job& job) {
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      Engine<T, G> engine{job, small.model, config};
      auto values = begin(engine, job.rank());
      for (int step = 0; step < steps; ++step) {
        small.step(engine);
      }
      if (steps > 0) {
        static_cast<void>(engine.finish());
        values = small.read(engine);
      }
      if (job.rank() == 0) {
        result.values = values;
      }
    });
  });
  result.message = messages_of(outcome);
  return result;
}

std::vector<Described> const layers{{"a.w", 300}, {"b.w", 77}, {"c.w", 1000}};

/// Three steps, saved; the values.
Small::Values save(std::filesystem::path const& folder, int world, Config const& config) {
  Small const small{layers};
  Small::Values saved;
  auto const outcome = run_job(world, [&](Job& job) {
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      Engine<T, G> engine{job, small.model, config};
      for (int step = 0; step < 3; ++step) {
        small.step(engine);
      }
      engine.save(folder).wait();
      engine.save_weights(folder / "weights.safetensors");
      auto const values = small.read(engine);
      if (job.rank() == 0) {
        saved = values;
      }
      static_cast<void>(engine.finish());
    });
  });
  REQUIRE(messages_of(outcome) == "");
  return saved;
}

}  // namespace

TEST_CASE("a restore of weights alone is the start that load_weights() is, for any optimizer and stage") {
  Folder const folder;
  auto const saved = save(folder.path(), 3, file(2, "AdamW"));
  Small const small{layers};
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const more : {"", R"("bf16": {"enabled": true},)"}) {
      INFO(fmt::format("stage {}, {}", stage, more));
      auto const config = file(stage, "Lion", more);
      std::atomic<std::int64_t> saved_step{0};
      auto const restored = on(
          2, config, small,
          [&](AnyEngine& engine, int) {
            auto const position = engine.restore(folder.path(), {.of = RestoreOf::weights});
            saved_step = position.step;
            return small.read(engine);
          },
          0);
      REQUIRE(restored.message.empty());
      CHECK(saved_step == 3);
      CHECK(restored.values == saved);
      auto const trained = [&](bool loads) {
        return on(
            2, config, small,
            [&](AnyEngine& engine, int) {
              loads ? engine.load_weights(folder / "weights.safetensors")
                    : static_cast<void>(engine.restore(folder.path(), {.of = RestoreOf::weights}));
              return Small::Values{};
            },
            3);
      };
      auto const after = trained(false);
      REQUIRE(after.message.empty());
      CHECK(after.values == trained(true).values);
      CHECK(after.values != saved);
    }
  }
}

TEST_CASE("a partial restore takes what both have, under other names, and lists the rest") {
  Folder const folder;
  auto const saved = save(folder.path(), 2, file(1, "AdamW"));
  Small const small{{{"model.a.w", 300}, {"head.w", 50}, {"model.c.w", 1000, false}}};
  RestoreOptions options{
      .of = RestoreOf::weights,
      .saved_name =
          [](std::string const& name) { return std::optional{name.starts_with("model.") ? name.substr(6) : name}; },
      .partial = true};
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    Log const log;
    Small::Values before;
    auto const after = on(3, file(stage, "AdamW"), small, [&](AnyEngine& engine, int rank) {
      auto const initial = small.read(engine);
      if (rank == 0) {
        before = initial;
      }
      static_cast<void>(engine.restore(folder.path(), options));
      return small.read(engine);
    });
    REQUIRE(after.message.empty());
    CHECK(after.values.at("model.a.w") == saved.at("a.w"));
    CHECK(after.values.at("model.c.w") == saved.at("c.w"));
    CHECK(after.values.at("head.w") == before.at("head.w"));
    CHECK_THAT(log.all(), Contains(R"(parameter "head.w" is not in it, and keeps its values)") &&
                              Contains(R"("b.w" in it is not a parameter of the model, and was passed over)"));
  }
}

TEST_CASE("a partial restore of everything goes on with the states of the parameters that it takes") {
  Folder const folder;
  save(folder.path(), 2, file(1, "AdamW"));
  Small const all{layers}, fewer{{layers[0], layers[2]}};
  auto const go_on = [&](Small const& small, int world, int stage, RestoreOptions const& options) {
    return on(
        world, file(stage, "AdamW"), small,
        [&](AnyEngine& engine, int) {
          static_cast<void>(engine.restore(folder.path(), options));
          return Small::Values{};
        },
        2);
  };
  auto const whole = go_on(all, 2, 1, {});
  REQUIRE(whole.message.empty());
  for (int stage = 0; stage <= 3; ++stage) {
    auto const part = go_on(fewer, 2, stage, {.partial = true});
    REQUIRE(part.message.empty());
    CHECK(part.values.at("a.w") == whole.values.at("a.w"));
    CHECK(part.values.at("c.w") == whole.values.at("c.w"));
  }
}

TEST_CASE("a parameter whose saved name is nullopt keeps its values; without partial, what is left over is an error") {
  Folder const folder;
  auto const saved = save(folder.path(), 1, file(0, "SGD"));
  Small const small{layers};
  auto const without_b = [](std::string const& name) { return name == "b.w" ? std::nullopt : std::optional{name}; };
  auto const restored = [&](RestoreOptions const& options) {
    return on(2, file(3, "SGD"), small, [&](AnyEngine& engine, int) {
      static_cast<void>(engine.restore(folder.path(), options));
      return small.read(engine);
    });
  };
  auto const part = restored({.saved_name = without_b, .partial = true});
  REQUIRE(part.message.empty());
  CHECK(part.values.at("a.w") == saved.at("a.w"));
  CHECK(part.values.at("b.w") != saved.at("b.w"));
  CHECK_THAT(restored({.saved_name = without_b}).message,
             Contains(R"("b.w" in the checkpoint is not a parameter of the model)") &&
                 Contains("RestoreOptions::partial takes what both have"));
  CHECK_THAT(restored({.saved_name = [](std::string const& name) { return std::optional{"old." + name}; }}).message,
             Contains(R"(parameter "a.w" as "old.a.w" is not in the checkpoint)"));
}

TEST_CASE("averages that a checkpoint lacks become the parameters in a partial restore") {
  Folder const folder;
  auto const saved = save(folder.path(), 2, file(2, "AdamW"));
  Small const small{layers};
  auto const with_averages = file(3, "AdamW", "", R"(, "ema": {"decay": 0.5})");
  auto const averages = [&](RestoreOptions const& options) {
    return on(2, with_averages, small, [&](AnyEngine& engine, int) {
      static_cast<void>(engine.restore(folder.path(), options));
      engine.swap_ema();
      return small.read(engine);
    });
  };
  CHECK_THAT(averages({}).message, Contains("keeps master, exp_avg, exp_avg_sq, ema"));
  for (auto const of : {RestoreOf::everything, RestoreOf::weights}) {
    auto const part = averages({.of = of, .partial = true});
    REQUIRE(part.message.empty());
    CHECK(part.values == saved);
  }
}

}  // namespace zeroth::testing
