// SPDX-License-Identifier: Apache-2.0
/// Muon with AdamW in one engine: stages are bitwise equal, memory is as planned, and checkpoints resume on any number
/// of ranks.
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/noise.hpp"
#include "support/thrown.hpp"
#include "zeroth/engine/plan.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {
namespace {

constexpr auto const* muon = R"("type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1})";

constexpr auto const* muon_by_gram =
    R"("type": "Muon", "params": {"lr": 0.02, "adam_lr": 0.003, "weight_decay": 0.1, "ns_method": "gram"})";

/// Matrices that are wide, tall and of one row, in units with and without other parameters, and one that is tied. No
/// number of ranks divides them.
struct MatrixModel {
  struct Block {
    Unit unit;
    std::vector<AnyParam> params;
  };
  Model model;
  std::vector<Block> blocks;

  explicit MatrixModel(bool marks_tall = true) : model{5} {
    auto const table = model.unit("table", {.rows_per_sample = 0});
    blocks.push_back({table, {model.param(table, "table.w", {11, 7}, Normal{0.5F})}});
    auto const first = model.unit("first");
    auto const wide = model.param(first, "first.wide", {7, 61}, Normal{0.3F}, {.matrix = true});
    auto const bias = model.param(first, "first.bias", {61}, Constant{0.1F}, {.weight_decay_factor = 0});
    auto const tall =
        model.param(first, "first.tall", {61, 13}, Normal{0.3F}, {.learning_rate_factor = 0.5F, .matrix = marks_tall});
    blocks.push_back({first, {wide, bias, tall}});
    auto const second = model.unit("second");
    auto const frozen = model.param(second, "second.frozen", {5, 5}, Normal{1}, {.trainable = false});
    blocks.push_back({second, {model.param(second, "second.square", {33, 33}, Normal{0.2F}, {.matrix = true})}});
    auto const last = model.unit("last");
    auto const row = model.param(last, "last.row", {1, 40}, Normal{0.2F}, {.matrix = true});
    model.tie(last, wide);
    blocks.push_back({last, {row, wide, model.param(last, "last.norm", {13}, Constant{1})}});
    static_cast<void>(frozen);
  }
};

struct Results {
  std::vector<std::uint32_t> bits;  ///< The bits of norms, then of all parameters.
  int skipped = 0;
  MemoryBytes planned, peak;
};

struct Options {
  int begin = 0, end = 4;           ///< Steps.
  std::filesystem::path restore{};  ///< Before the first step, if not empty.
  std::filesystem::path save{};     ///< After the last step, if not empty.
  int overflow_at = -1;             ///< The step in which a gradient is infinite.
  bool same_samples = false;        ///< All ranks and micro-steps have the same gradients.
  bool marks_tall = true;
};

template <Element T, GradientOf<T> G>
void run(Job& job, Config const& config, Options const& options, Results& results) {
  MatrixModel const matrices{options.marks_tall};
  AnyEngine engine{job, matrices.model, config};
  if (!options.restore.empty()) {
    static_cast<void>(engine.restore(options.restore));
  }
  auto const note = [&](std::optional<StepReport> const& report) {
    if (report) {
      results.bits.push_back(std::bit_cast<std::uint32_t>(report->grad_norm));
      results.bits.push_back(report->skipped ? 1 : 0);
      results.skipped += report->skipped ? 1 : 0;
    }
  };
  for (int step = options.begin; step < options.end; ++step) {
    for (auto micro : engine.micro_steps()) {
      for (auto const& block : matrices.blocks) {
        auto const p = micro.forward(block.unit);
      }
      auto const seed = micro.report_loss(1.0F);
      for (auto block = matrices.blocks.rbegin(); block != matrices.blocks.rend(); ++block) {
        auto const p = micro.backward(block->unit);
        for (auto const& param : block->params) {
          auto const view = p[param];
          auto const gradient = p.grad(param);
          auto const* const values = static_cast<T const*>(view.data);
          auto* const sums = static_cast<G*>(gradient.data());
          for (std::int64_t i = 0; i < view.count; ++i) {
            float fresh =
                seed * (0.1F * to_float(values[i]) + noise(options.same_samples ? step : micro.first_sample(), i));
            fresh = step == options.overflow_at && i == 3 ? HUGE_VALF : fresh;
            sums[i] = from_float<G>((gradient.beta() == 0 ? 0.0F : to_float(sums[i])) + fresh);
          }
        }
      }
    }
    note(engine.step());
  }
  note(engine.finish());
  for (std::uint32_t param = 0; param < matrices.model.description().params.size(); ++param) {
    auto const handle = matrices.model.param_at(param);
    std::vector<float> values(static_cast<std::size_t>(matrices.model.description().params[ParamId{param}].count));
    engine.read(handle, values);
    for (auto const value : values) {
      results.bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
  }
  if (!options.save.empty()) {
    engine.save(options.save).wait();
  }
  results.planned = engine.planned();
  results.peak = engine.peak();
}

/// The results of rank 0. Requires that all ranks have the same ones, and that memory is as planned.
Results trained(int world, Config const& config, Options const& options = {}) {
  std::vector<Results> all(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    auto& results = all[static_cast<std::size_t>(job.rank())];
    with_precision(config, [&]<class T, class G>(Precision<T, G>) { run<T, G>(job, config, options, results); });
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& results : all) {
    REQUIRE(results.bits == all.front().bits);
    REQUIRE(results.planned == results.peak);
  }
  return all.front();
}
Results trained(int world, std::string const& text, Options const& options = {}) {
  return trained(world, Config::from_json(text), options);
}

std::string text_of(Types const& types, int stage, int accumulation = 2, Movement const& move = movements[1],
                    char const* optimizer = muon) {
  return file(types, stage, accumulation, "every_micro_step", move, "", optimizer);
}

/// The error of building an engine, or a plan, for this model.
std::string refused(std::string const& text, Model const& model, int world = 2) {
  return thrown<ConfigError>([&] { return plan(model, Config::from_json(text), world); });
}

constexpr Types types_of_muon[] = {
    fp32_types,
    bf16_types,
    fp16_types,
    bf16_masters,
    bf16_reduced_in_fp32,
    {"bf16 with fp32 gradients", R"("bf16": {"enabled": true},)", R"("gradient_dtype": "fp32", )"}};

}  // namespace

TEST_CASE("Muon: stages are bit-equal") {
  auto const types = GENERATE(from_range(std::begin(types_of_muon), std::end(types_of_muon)));
  auto const world = GENERATE(1, 2, 3, 4);
  INFO(fmt::format("{} ranks, {}", world, types.name));
  auto const base = trained(world, text_of(types, 0));
  auto const by_adam = trained(world, text_of(types, 0, 2, movements[1], R"("type": "AdamW", "params": {"lr": 0.01})"));
  REQUIRE(by_adam.bits != base.bits);
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const& move : {movements[stage], movements[(stage + 2) % 4]}) {
      INFO(fmt::format("stage {}, bucket {}, overlap {}", stage, move.bucket, move.overlap));
      REQUIRE(trained(world, text_of(types, stage, 2, move)).bits == base.bits);
    }
  }
}

TEST_CASE("Muon: stages are bit-equal by Gram matrices too") {
  auto const types = GENERATE(fp32_types, bf16_types);
  auto const world = GENERATE(1, 3, 4);
  INFO(fmt::format("{} ranks, {}", world, types.name));
  auto const base = trained(world, text_of(types, 0, 2, movements[0], muon_by_gram));
  REQUIRE(trained(world, text_of(types, 0)).bits != base.bits);
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    REQUIRE(trained(world, text_of(types, stage, 2, movements[(stage + 1) % 4], muon_by_gram)).bits == base.bits);
  }
}

TEST_CASE("Muon: a program's own products give its bits at every stage, in memory that is planned") {
  std::atomic<int> calls{0};
  optim::Multiply const multiply = [&](optim::MatrixProduct const& p) {
    ++calls;
    for (std::int64_t i = 0; i < p.rows; ++i) {
      for (std::int64_t j = 0; j < p.columns; ++j) {
        float sum = 0;
        for (auto k = p.inner - 1; k >= 0; --k) {  // another order than the library's
          auto const right = p.transposes_right ? p.right[j * p.inner + k] : p.right[k * p.columns + j];
          sum += to_float(p.left[i * p.inner + k]) * to_float(right);
        }
        p.sums[i * p.columns + j] = sum;
      }
    }
  };
  auto const text = [](int stage) { return text_of(bf16_types, stage, 2, movements[stage]); };
  auto const base = trained(3, Config::from_json(text(0)).with(multiply));
  CHECK(calls == 4 * 4 * 15);  // steps, matrices, products
  CHECK(base.bits != trained(3, text(0)).bits);
  for (int stage = 1; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    CHECK(trained(3, Config::from_json(text(stage)).with(multiply)).bits == base.bits);
  }
}

TEST_CASE("Muon: groups share matrices within a copy of the states, with the same bits") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types);
  auto const text = [&](int stage, std::string const& keys, char const* ours = "") {
    auto result = file(types, stage, 2, "every_micro_step", movements[static_cast<std::size_t>(stage)], ours, muon);
    std::string const before = R"("zero_optimization": {)";
    return result.insert(result.find(before) + before.size(), keys);
  };
  Options const options{.overflow_at = types.name == fp16_types.name ? 1 : -1};
  auto const base = trained(4, text(0, ""), options);
  for (auto const* const keys : {R"("zero_hpz_partition_size": 2, )", R"("mics_shard_size": 2, )",
                                 R"("mics_shard_size": 1, )", R"("mics_shard_size": 4, )"}) {
    INFO(fmt::format("{}, {}", types.name, keys));
    REQUIRE(trained(4, text(3, keys), options).bits == base.bits);
    REQUIRE(trained(4, text(3, keys, R"(, "single_communicator": true)"), options).bits == base.bits);
  }
  REQUIRE(trained(4, text(1, R"("mics_shard_size": 2, )"), options).bits == base.bits);
  auto const* const levels = R"(, "two_level_sums": true, "group_size": 2)";
  auto const by_levels = trained(4, text(0, "", levels), options);
  REQUIRE(trained(4, text(2, "", levels), options).bits == by_levels.bits);
  REQUIRE(trained(4, text(3, R"("mics_shard_size": 2, )", levels), options).bits == by_levels.bits);
}

TEST_CASE("Muon: a step that is skipped changes neither momenta nor matrices, at every stage") {
  auto const base = trained(3, text_of(fp16_types, 0), {.overflow_at = 1});
  CHECK(base.skipped == 1);
  for (int stage = 1; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    CHECK(trained(3, text_of(fp16_types, stage), {.overflow_at = 1}).bits == base.bits);
  }
}

TEST_CASE("Muon: equal gradients give equal bits on any number of ranks") {
  Options const options{.same_samples = true};
  auto const base = trained(1, text_of(fp32_types, 0, 1), options);
  for (int const world : {2, 4}) {
    for (int const stage : {0, 1, 3}) {
      INFO(fmt::format("{} ranks, stage {}", world, stage));
      CHECK(trained(world, text_of(fp32_types, stage, 1), options).bits == base.bits);
    }
  }
}

TEST_CASE("Muon: what was saved continues at other stages and on other numbers of ranks") {
  auto const types = GENERATE(fp32_types, bf16_types);
  Folder const folder;
  Options options{.same_samples = true};
  auto const whole = trained(2, text_of(types, 2, 1), options);
  options.end = 2;
  options.save = folder.path();
  auto const first = trained(2, text_of(types, 2, 1), options);
  for (int const world : {1, 2, 4}) {
    for (int const stage : {0, 1, 2, 3}) {
      INFO(fmt::format("{}, {} ranks, stage {}", types.name, world, stage));
      auto const rest =
          trained(world, text_of(types, stage, 1), {.begin = 2, .restore = folder.path(), .same_samples = true});
      std::vector<std::uint32_t> const all_values(whole.bits.end() - (std::ssize(whole.bits) - 8), whole.bits.end());
      std::vector<std::uint32_t> const rest_values(rest.bits.end() - std::ssize(all_values), rest.bits.end());
      CHECK(rest_values == all_values);
    }
  }
  auto const message = [&](std::string const& text, bool marks_tall) {
    auto const outcome = run_job(1, [&](Job& job) {
      MatrixModel const matrices{marks_tall};
      AnyEngine engine{job, matrices.model, Config::from_json(text)};
      static_cast<void>(engine.restore(folder.path()));
    });
    return messages_of(outcome);
  };
  CHECK_THAT(message(text_of(types, 1, 1), false),
             Catch::Contains("parameter \"first.tall\" has states master, momentum_buffer in it, and master, exp_avg, "
                             "exp_avg_sq here: with optimizer Muon these depend on ParamOptions::matrix"));
  CHECK_THAT(message(text_of(types, 1, 1, movements[1], R"("type": "AdamW")"), true),
             Catch::Contains("the stage file's optimizer keeps master, exp_avg, exp_avg_sq"));
}

TEST_CASE("Muon: what cannot be is refused, with the reason") {
  MatrixModel const matrices;
  Model none;
  static_cast<void>(none.param(none.unit("u"), "w", {4, 4}, Constant{1}));
  CHECK_THAT(
      refused(text_of(fp32_types, 1), none),
      Catch::Contains("optimizer.type is \"Muon\", and no parameter of the model is marked by ParamOptions::matrix"));
  auto const says_on_gpus = [&](Config const& config) {
    auto const notes = plan(matrices.model, config, 2, {.device = DeviceKind::cuda}).notes;
    return std::ranges::any_of(
        notes, [](std::string const& note) { return note.find("is not supported on GPUs") != std::string::npos; });
  };
  auto const config = Config::from_json(text_of(fp32_types, 1));
  CHECK_FALSE(says_on_gpus(config));
  CHECK(says_on_gpus(config.with(optim::Multiply{[](optim::MatrixProduct const&) {}})));
  auto const by_gram = Config::from_json(text_of(fp32_types, 1, 1, movements[1], muon_by_gram))
                           .with(optim::Multiply{[](optim::MatrixProduct const&) {}});
  auto const notes = plan(matrices.model, by_gram, 2).notes;
  CHECK(std::ranges::any_of(notes, [](std::string const& note) {
    return note.find("optimizer.params.ns_method is \"gram\"") != std::string::npos;
  }));
  auto const outcome = run_job(2, [&](Job& job) { Engine<float> const engine{job, matrices.model, by_gram}; });
  CHECK_THAT(messages_of(outcome), Catch::Contains("optimizer.params.ns_method is \"gram\", which multiplies fp16"));
}

TEST_CASE("Muon: a plan has one state of matrices and two of others, and says so") {
  MatrixModel const matrices;
  auto const of = [&](char const* optimizer) {
    return plan(matrices.model, Config::from_json(text_of(fp32_types, 1, 1, movements[1], optimizer)), 1);
  };
  auto const by_muon = of(muon), by_adam = of(R"("type": "AdamW")");
  std::int64_t marked = 0;
  for (auto const& param : matrices.model.description().params) {
    marked += param.options.matrix ? param.count : 0;
  }
  auto const saved = by_adam.bytes.optimizer - by_muon.bytes.optimizer;
  CHECK(saved >= 4 * marked - 4 * 4 * 128);
  CHECK(saved <= 4 * marked + 4 * 4 * 128);
  CHECK_THAT(explain_plan(by_muon),
             Catch::Contains("optimizer: Muon, states momentum_buffer; AdamW for parameters without "
                             "ParamOptions::matrix, states exp_avg, exp_avg_sq"));
}

}  // namespace zeroth::testing
