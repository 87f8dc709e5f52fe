// SPDX-License-Identifier: Apache-2.0
/// With zeroth.ema.decay stages 0 to 3 keep the same averages, bit for bit, and train as without them.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "tiers.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

constexpr auto* const averages = R"(, "ema": {"decay": 0.75})";

/// The values and averages of a parameter, whose gradient is that of a quadratic loss, after each of `steps` steps.
/// With delayed updates only at the end, since swap_ema() applies the pending update.
struct Followed {
  std::vector<std::vector<float>> values, averages;
};

Followed follow(int world, Config const& config, int steps, bool late = false) {
  constexpr std::int64_t count = 333;
  Followed result;
  auto const outcome = run_job(world, [&](Job& job) {
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      Model model{5};
      auto const first = model.unit("first"), second = model.unit("second");
      auto const a = model.param(first, "a", {count}, Normal{1});
      auto const b = model.param(second, "b", {77}, Normal{1});
      Engine<T, G> engine{job, model, config};
      if (engine.serves()) {
        engine.serve();
        return;
      }
      std::vector<float> all(count);
      auto const read = [&](std::vector<std::vector<float>>& into) {
        engine.read(a, all);
        if (job.rank() == 0) {
          into.push_back(all);
        }
      };
      read(result.values);
      for (int step = 0; step < steps; ++step) {
        for (auto micro : engine.micro_steps()) {
          for (auto const unit : {first, second}) {
            static_cast<void>(micro.forward(unit));
          }
          float const seed = micro.report_loss(1);
          auto const back = [&](Unit unit, Param<1> const& param, std::size_t size) {
            auto const p = micro.backward(unit);
            auto const* const at = p[param].data();
            auto* const gradient = p.grad(param).data();
            for (std::size_t i = 0; i < size; ++i) {
              gradient[i] = from_float<G>(seed * to_float(at[i]));
            }
          };
          back(second, b, 77);
          back(first, a, static_cast<std::size_t>(count));
        }
        engine.step();
        if (late && step + 1 < steps) {
          continue;
        }
        static_cast<void>(engine.finish());
        read(result.values);
        engine.swap_ema();
        read(result.averages);
        engine.swap_ema();
        read(result.values);
        if (job.rank() == 0) {
          auto const again = result.values.back();
          result.values.pop_back();
          if (bits_of(again) != bits_of(result.values.back())) {
            throw std::runtime_error{"values differ after two exchanges"};
          }
        }
      }
      static_cast<void>(engine.finish());
    });
  });
  REQUIRE(messages_of(outcome) == "");
  return result;
}

std::string small_file(int stage, char const* types, char const* more = "", char const* zero = "") {
  return fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, {} "zero_optimization": {{"stage": {}{}}},
      "optimizer": {{"type": "AdamW", "params": {{"lr": 0.125}}}},
      "zeroth": {{"timeout_ms": 60000, "ema": {{"decay": 0.75}}{}}}}})",
                     types, stage, zero, more);
}

}  // namespace

TEST_CASE("an average moves a part of the way to the new parameters after each update") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const types : {"", R"("bf16": {"enabled": true},)"}) {
      INFO(fmt::format("stage {}, {}", stage, types));
      auto const followed = follow(3, Config::from_json(small_file(stage, types)), 4);
      REQUIRE(followed.averages.size() == 4);
      auto average = followed.values.front();
      for (std::size_t step = 0; step < followed.averages.size(); ++step) {
        auto const& values = followed.values[step + 1];
        REQUIRE(values != followed.values[step]);
        for (std::size_t i = 0; i < average.size(); ++i) {
          average[i] += 0.25F * (values[i] - average[i]);
        }
        CHECK(bits_of(average) == bits_of(followed.averages[step]));
      }
    }
  }
}

TEST_CASE("averages change no bit of the training, and are equal at every stage") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types, bf16_summed_in_fp32);
  auto const* const optimizer = GENERATE(R"("type": "AdamW", "params": {"lr": 0.01})",
                                         R"("type": "SGD", "params": {"lr": 0.01})", R"("type": "Lamb")");
  auto const with = [&](int stage, char const* more) {
    TrainOptions options;
    std::vector<float> all;
    options.after_step = [&](AnyEngine& engine, int step) {
      if (std::string{more} == averages && step == 3) {
        engine.swap_ema();
        engine.swap_ema();
      }
    };
    return train(3, file(types, stage, 2, "every_micro_step", movements[stage], more, optimizer), options);
  };
  auto const plain = bits_of(with(0, ""));
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("{}, stage {}, {}", types.name, stage, optimizer));
    CHECK(bits_of(with(stage, averages)) == plain);
  }
}

TEST_CASE("parameter servers keep the averages of stage 1, and workers read them") {
  for (auto const& types : {"", R"("bf16": {"enabled": true},)"}) {
    auto const base = follow(2, Config::from_json(small_file(1, types)), 3);
    for (int servers = 1; servers <= 3; ++servers) {
      INFO(fmt::format("{}, {} servers", types, servers));
      auto const more = fmt::format(R"(, "parameter_server": {{"servers": {}}})", servers);
      auto const served = follow(2 + servers, Config::from_json(small_file(0, types, more.c_str())), 3);
      CHECK(served.values == base.values);
      CHECK(served.averages == base.averages);
    }
    auto const stale = R"(, "parameter_server": {"servers": 2, "staleness": 2})";
    auto const unclipped = fmt::format(R"("gradient_clipping": 0, {})", types);
    auto const alone = follow(1, Config::from_json(small_file(1, unclipped.c_str())), 3);
    CHECK(follow(3, Config::from_json(small_file(0, unclipped.c_str(), stale)), 3).averages == alone.averages);
  }
}

TEST_CASE("averages are the same with delayed updates at each stage that has them, and with states on a disk") {
  auto const late = [](int stage) {
    return follow(2, Config::from_json(small_file(stage, "", R"(, "delayed_update": true)")), 3, true);
  };
  auto const base = late(0);
  for (int stage = 1; stage <= 2; ++stage) {
    CHECK(late(stage).averages == base.averages);
  }
  Folder const folder;
  for (auto const* const types : {"", R"("bf16": {"enabled": true},)"}) {
    auto const in_memory = follow(2, Config::from_json(small_file(3, types)), 3);
    for (auto const& disk : on_disks) {
      INFO(fmt::format("{}, {}", types, disk.name()));
      auto const offloaded = follow(2, on_disk(Config::from_json(small_file(3, types)), disk, folder.path()), 3);
      CHECK(offloaded.averages == in_memory.averages);
      CHECK(offloaded.values == in_memory.values);
    }
  }
}

TEST_CASE("a checkpoint has the averages, also for other stages and numbers of ranks") {
  Folder const folder;
  TrainOptions options;
  options.steps = 5;
  options.evaluates = false;
  options.skips = false;
  options.batch = 6;
  std::vector<float> parameters;
  auto const look = [&](AnyEngine& engine, int step) {
    if (step == 5) {
      engine.swap_ema();
    }
  };
  auto const text = [&](int stage, int world) {
    return file(fp32_types, stage, 6 / world, "every_micro_step", movements[2],
                fmt::format(R"({}, "same_bits_at_any_ranks": true)", averages));
  };
  options.after_step = [&](AnyEngine& engine, int step) {
    if (step == 2) {
      engine.save(folder.path()).wait();
    }
    look(engine, step);
  };
  auto const whole = train(3, text(2, 3), options);
  for (auto const& [stage, world] : {std::pair{0, 3}, std::pair{3, 3}, std::pair{3, 2}, std::pair{1, 1}}) {
    INFO(fmt::format("stage {}, {} ranks", stage, world));
    auto resumed = options;
    resumed.begin = [&](AnyEngine& engine) {
      return static_cast<int>(engine.restore(folder.path() / "step_00000002").step);
    };
    resumed.after_step = look;
    CHECK(bits_of(train(world, text(stage, world), resumed).parameters) == bits_of(whole.parameters));
  }
}

TEST_CASE("while parameters are exchanged with their averages, calls that change or save states are refused") {
  Folder const folder;
  auto const outcome = run_job(1, [&](Job& job) {
    Model model{5};
    auto const unit = model.unit("unit");
    auto const param = model.param(unit, "param", {3}, Constant{1});
    Engine<float> engine{job, model, Config::from_json(small_file(1, ""))};
    engine.swap_ema();
    auto const refused = [](auto const& call) {
      try {
        call();
      } catch (ContractError const& error) {
        return std::string_view{error.what()}.find("exchanged with their averages: call swap_ema() again first") !=
               std::string_view::npos;
      }
      return false;
    };
    std::vector<float> const values(3);
    CHECK(refused([&] { engine.save(folder.path()); }));
    CHECK(refused([&] { engine.write(param, values); }));
    CHECK(refused([&] { engine.load_weights(folder / "none.safetensors"); }));
    CHECK(refused([&] { engine.restore(folder.path()); }));
    CHECK(refused([&] { auto const micro = *engine.micro_steps().begin(); }));
    engine.swap_ema();
  });
  CHECK(messages_of(outcome) == "");
  auto const without = run_job(1, [&](Job& job) {
    Model model{5};
    static_cast<void>(model.param(model.unit("unit"), "param", {3}, Constant{1}));
    Engine<float> engine{job, model, Config::from_json(R"({"train_micro_batch_size_per_gpu": 1})")};
    engine.swap_ema();
  });
  CHECK_THAT(messages_of(without), Catch::Contains("set zeroth.ema.decay in the stage file"));
}

}  // namespace zeroth::testing
