// SPDX-License-Identifier: Apache-2.0
/// Parameters with ParamOptions::compute fp32 in models of 16 bits: all stages have the bits of stage 0, with groups,
/// tiers, codecs and every optimizer, and such a parameter trains as in an fp32 model.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "ended.hpp"
#include "engine/safetensors_file.hpp"
#include "groups.hpp"
#include "support/catch.hpp"
#include "support/next.hpp"
#include "support/noise.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"
#include "tiers.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr Types narrow_types[] = {
    bf16_types,
    fp16_types,
    {"bf16 with fp32 gradients", R"("bf16": {"enabled": true},)", R"("gradient_dtype": "fp32", )"},
    bf16_masters,
    bf16_masters_and_moments,
    bf16_reduced_in_fp32,
    bf16_summed_in_fp32};

TrainOptions with_fp32() {
  TrainOptions options;
  options.some_fp32 = true;
  return options;
}

bool is_bf16(float value) noexcept { return to_float(from_float<bf16>(value)) == value; }

/// Two units, each with one parameter in fp32 and one that has the compute dtype.
struct Mixed {
  Model model;
  struct Layer {
    Unit unit;
    Param<1> kept, rounded;
  };
  std::vector<Layer> layers;
  explicit Mixed(std::optional<Dtype> compute) {
    for (int i = 0; i < 2; ++i) {
      auto const unit = model.unit(fmt::format("layer {}", i));
      layers.push_back({unit,
                        model.param(unit, fmt::format("kept {}", i), {200 + i}, Normal{0.5F}, {.compute = compute}),
                        model.param(unit, fmt::format("rounded {}", i), {300}, Normal{0.5F})});
    }
  }
};

/// Trains with gradients that do not depend on the rounded parameters, and calls `end` before the engine ends.
template <Element T, GradientOf<T> G, class End>
void train_mixed(Job& job, Mixed const& mixed, Config const& config, End const& end) {
  Engine<T, G> engine{job, mixed.model, config};
  for (int step = 0; step < 3; ++step) {
    for (auto micro : engine.micro_steps()) {
      for (auto const& layer : mixed.layers) {
        auto const p = micro.forward(layer.unit);
      }
      auto const seed = micro.report_loss(1);
      for (auto layer = mixed.layers.rbegin(); layer != mixed.layers.rend(); ++layer) {
        auto const p = micro.backward(layer->unit);
        auto const values = p.template as<float>(layer->kept);
        auto grad = p.template grad_as<float>(layer->kept);
        for (std::int64_t i = 0; i < values.count(); ++i) {
          auto const old = grad.beta() == 0 ? 0.0F : grad.data()[i];
          grad.data()[i] = old + seed * (0.3F * values.data()[i] + noise(micro.first_sample(), i));
        }
      }
    }
    engine.step();
  }
  engine.finish();
  end(engine);
}

std::string mixed_file(int stage, char const* dtype) {
  return fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, {}
                         "zero_optimization": {{"stage": {}}},
                         "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
                         "zeroth": {{"reduce_gradients": "every_micro_step", "timeout_ms": 120000}}}})",
                     dtype, stage);
}

}  // namespace

TEST_CASE("stages are bit-equal where some parameters are fp32 and others are not") {
  auto const world = GENERATE(from_range(worlds({1, 2, 3}, {3})));
  auto const types = GENERATE(from_range(std::begin(narrow_types), std::end(narrow_types)));
  auto const [accumulation, reduce] =
      GENERATE(table<int, char const*>({{1, "every_micro_step"}, {3, "last_micro_step"}, {2, "every_micro_step"}}));
  static Sample sample{11, 2};
  if (sample.leaves_out()) {
    return;
  }
  INFO(fmt::format("{} ranks, {}, {} micro-steps", world, types.name, accumulation));
  auto const of = [&, accumulation = accumulation, reduce = reduce](int stage, Movement const& move, char const* more) {
    return Config::from_json(file(types, stage, accumulation, reduce, move, more));
  };
  auto const base = trained(world, of(0, movements[1], ""), with_fp32());
  CHECK(trained(world, of(0, movements[1], "")) != base);  // the option does something
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& move = movements[(stage + world) % 4];
    INFO(fmt::format("stage {}, bucket {}, slots {}, overlap {}", stage, move.bucket, move.gradient_slots,
                     move.overlap));
    REQUIRE(trained(world, of(stage, move, move.gradient_slots == 1 ? "" : R"(, "poison": true)"), with_fp32()) ==
            base);
  }
}

TEST_CASE("with some fp32 parameters groups, disks and small parameters end like stage 0, with every optimizer") {
  auto const rule = GENERATE(from_range(trained_rules()));
  auto const types = GENERATE(bf16_types, bf16_masters, fp16_types);
  static Sample sample{11, 2};
  if (sample.leaves_out()) {
    return;
  }
  INFO(fmt::format("{}, {}", rule.name, types.name));
  Folder const folder;
  static Next next{on_disks, std::size(on_disks)};
  static Next next_parameters{parameters_on_disks, std::size(parameters_on_disks)};
  auto const of = [&](int stage, Movement const& move) {
    return Config::from_json(file(types, stage, 2, "every_micro_step", move, "", rule.optimizer));
  };
  auto const small = [](Config const& config) {
    return config.with(R"({"zero_optimization": {"stage3_param_persistence_threshold": 100}})");
  };
  auto const base = ended(4, of(0, movements[1]), with_fp32());
  auto const& states = next();
  auto const& parameters = next_parameters();
  INFO(fmt::format("{}; {}", states.name(), parameters.name()));
  auto const at_3 = of(3, movements[2]);
  auto const of_groups = in_groups(at_3, {3, Cut::parameters}, 2);
  if (!std::holds_alternative<optim::Lamb>(rule.rule)) {  // LAMB needs all masters in memory
    CHECK(ended(4, on_disk(at_3, states, folder.path()), with_fp32()) == base);
    CHECK(ended(4, parameters_on_disk(at_3, parameters, folder.path()), with_fp32()) == base);
    CHECK(ended(4, parameters_on_disk(on_disk(at_3, states, folder.path()), parameters, folder.path()), with_fp32()) ==
          base);
    CHECK(ended(4, parameters_on_disk(of_groups, parameters, folder.path()), with_fp32()) == base);
  }
  CHECK(ended(4, of_groups, with_fp32()) == base);
  CHECK(ended(4, in_groups(of(2, movements[3]), {2, Cut::states}, 2), with_fp32()) == base);
  auto const small_base = ended(4, small(of(0, movements[0])), with_fp32());
  CHECK(ended(4, small(at_3), with_fp32()) == small_base);
}

TEST_CASE("codecs and delayed updates have the bits of stage 0 where some parameters are fp32") {
  auto const types = GENERATE(bf16_types, fp16_types, bf16_masters);
  auto const* const more =
      GENERATE(R"(, "reduce_codec": "exact")", R"(, "reduce_codec": "int8")", R"(, "gather_codec": "int8")",
               R"(, "reduce_codec": "int4", "gather_codec": "int8")", R"(, "delayed_update": true)");
  std::string const keys = more;
  bool const delays = keys.find("delayed") != std::string::npos;
  if (keys.find("gather") != std::string::npos && types.name == bf16_masters.name) {
    return;  // needs masters
  }
  INFO(types.name << more);
  auto const of = [&](int stage, Movement const& move) {
    return Config::from_json(file(types, stage, 2, "every_micro_step", move, more));
  };
  auto const base = trained(3, of(0, movements[1]), with_fp32());
  for (int stage = 1; stage <= (delays ? 2 : 3); ++stage) {
    INFO("stage " << stage);
    CHECK(trained(3, of(stage, movements[stage % 4]), with_fp32()) == base);
  }
}

TEST_CASE("a parameter in fp32 trains in a bf16 model as in an fp32 model") {
  int const stage = GENERATE(0, 1, 2, 3);
  auto const run = [&](auto type, char const* dtype, std::optional<Dtype> compute) {
    using T = decltype(type);
    Mixed const mixed{compute};
    std::vector<std::vector<float>> values;
    auto const outcome = run_job(2, [&](Job& job) {
      train_mixed<T, T>(job, mixed, Config::from_json(mixed_file(stage, dtype)), [&](Engine<T, T>& engine) {
        for (auto const& layer : mixed.layers) {
          std::vector<float> all(static_cast<std::size_t>(layer.kept.shape()[0]));
          engine.read(layer.kept, all);
          if (job.rank() == 0) {
            values.push_back(std::move(all));
          }
        }
      });
    });
    REQUIRE(messages_of(outcome) == "");
    return values;
  };
  auto const narrow = run(bf16{}, R"("bf16": {"enabled": true},)", Dtype::fp32);
  CHECK(narrow == run(float{}, "", std::nullopt));
  CHECK(narrow == run(float{}, "", Dtype::fp32));
  CHECK_FALSE(std::ranges::all_of(narrow.front(), is_bf16));
}

TEST_CASE("the plan has the elements that are fp32, and slots of their own for them") {
  auto const of = [](char const* dtype) {
    auto const config = Config::from_json(mixed_file(3, dtype));
    return plan(Mixed{Dtype::fp32}.model, config, 2);
  };
  auto const narrow = of(R"("bf16": {"enabled": true},)");
  CHECK(narrow.fp32_count == 401);
  CHECK(narrow.flat_units == 4);
  auto const fp32_slots = std::ranges::count(narrow.parameter_slots, Dtype::fp32, &PlannedSlots::dtype);
  CHECK(fp32_slots == 1);
  CHECK(narrow.parameter_slots.size() == 2);
  CHECK_THAT(explain_plan(narrow), Contains("fp32 throughout: 401 elements, by ParamOptions::compute"));
  CHECK_THAT(explain_plan(narrow), Contains("elements (2 units, fp32)"));
  auto const wide = of("");
  CHECK(wide.fp32_count == 0);
  CHECK(wide.flat_units == 2);
}

TEST_CASE("files of 16 bits keep such parameters in fp32") {
  Folder const folder;
  auto const file = folder / "weights.safetensors";
  auto const config = Config::from_json(mixed_file(3, R"("bf16": {"enabled": true},)"))
                          .with(R"({"zero_optimization": {"stage3_gather_16bit_weights_on_model_save": true}})");
  Mixed const mixed{Dtype::fp32};
  std::vector<float> kept(200);
  auto const outcome = run_job(2, [&](Job& job) {
    train_mixed<bf16, bf16>(job, mixed, config, [&](Engine<bf16>& engine) {
      std::vector<float> values(200);
      engine.read(mixed.layers[0].kept, values);
      engine.save_weights(file);
      std::vector<float> changed(200, 7.0F);
      engine.write(mixed.layers[0].kept, changed);
      engine.load_weights(file);
      std::vector<float> loaded(200);
      engine.read(mixed.layers[0].kept, loaded);
      if (loaded != values) {
        throw std::runtime_error{"the file does not hold the parameter"};
      }
      if (job.rank() == 0) {
        kept = values;
      }
    });
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK_FALSE(std::ranges::all_of(kept, is_bf16));
  auto const text = read_file(file);
  CHECK_THAT(text, Contains(R"("kept 0":{"dtype":"F32","shape":[200])"));
  CHECK_THAT(text, Contains(R"("rounded 0":{"dtype":"BF16","shape":[300])"));
}

TEST_CASE("the dtype of a parameter is refused where it is wrong, by name") {
  Model model;
  auto const unit = model.unit("unit");
  auto const add = [&](Dtype dtype) {
    return thrown<ContractError>(
        [&] { static_cast<void>(model.param(unit, "w", {3}, Constant{1}, {.compute = dtype})); });
  };
  CHECK_THAT(add(Dtype::bf16), Contains("parameter \"w\": ParamOptions::compute is bf16; allowed: fp32"));
  CHECK_THAT(add(Dtype::int32), Contains("is int32; allowed: fp32"));

  Mixed const mixed{Dtype::fp32};
  std::vector<std::string> messages(2);
  auto const outcome = run_job(1, [&](Job& job) {
    Engine<bf16> engine{job, mixed.model, Config::from_json(mixed_file(3, R"("bf16": {"enabled": true},)"))};
    for (auto pass : engine.evaluation(1)) {
      auto const p = pass.forward(mixed.layers[0].unit);
      messages[0] = thrown<ContractError>([&] { static_cast<void>(p[mixed.layers[0].kept]); });
      messages[1] = thrown<ContractError>([&] { static_cast<void>(p.as<float>(mixed.layers[0].rounded)); });
      pass.report_loss(0);
    }
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK_THAT(messages[0],
             Contains("parameter \"kept 0\" is fp32, and a guard was asked for bf16; allowed: as<float>()"));
  CHECK_THAT(messages[1],
             Contains("parameter \"rounded 0\" is bf16, and a guard was asked for fp32; allowed: as<zeroth::bf16>()"));

  auto const refused = [&](int world, char const* keys) {
    auto const config = Config::from_json(mixed_file(3, R"("bf16": {"enabled": true},)")).with(keys);
    return thrown<ConfigError>([&] { static_cast<void>(plan(mixed.model, config, world)); });
  };
  CHECK_THAT(refused(3, R"({"zero_optimization": {"stage": 0}, "zeroth": {"parameter_server": {"servers": 1}}})"),
             Contains("zeroth.parameter_server.servers is 1, and parameter \"kept 0\" has ParamOptions::compute fp32"));
  CHECK_THAT(refused(2, R"({"optimizer": {"type": "Lamb"},
                            "zero_optimization": {"offload_param": {"device": "nvme", "nvme_path": "/tmp"}}})"),
             Contains("optimizer.type is Lamb, which reads all masters before it updates the first, and parameter "
                      "\"kept 0\" has ParamOptions::compute fp32"));
}

}  // namespace zeroth::testing
