// SPDX-License-Identifier: Apache-2.0
/// Workers with parameter servers train like as many ranks at stage 1, bit for bit.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

std::string with_servers(int servers, char const* more = "") {
  return fmt::format(R"(, "parameter_server": {{"servers": {}}}{})", servers, more);
}

/// Trains with servers as the job's last ranks. Requires that workers have the same results, and returns them.
Trained train_with_servers(int workers, int servers, std::string const& text, TrainOptions const& options = {}) {
  auto const world = workers + servers;
  auto const config = Config::from_json(text);
  std::vector<Trained> results(static_cast<std::size_t>(world));
  auto const outcome = run_job(
      world, [&](Job& job) { results[static_cast<std::size_t>(job.rank())] = train_synthetic(job, config, options); });
  REQUIRE(messages_of(outcome) == "");
  auto const planned = plan(SyntheticModel{}.model, config, world);
  for (int rank = 0; rank < world; ++rank) {
    auto const& result = results[static_cast<std::size_t>(rank)];
    REQUIRE(result.planned == result.peak);
    REQUIRE(result.peak == (rank < workers ? planned.bytes : planned.servers.bytes));
  }
  auto const& moved = results.front().reports.back();
  REQUIRE(moved.reduced_bytes == planned.servers.pushed_bytes);
  REQUIRE(planned.servers.received_bytes * servers == moved.reduced_bytes * workers);
  REQUIRE(planned.servers.sent_bytes * servers == moved.gathered_bytes * workers);
  for (int worker = 1; worker < workers; ++worker) {
    REQUIRE(bits_of(results[static_cast<std::size_t>(worker)]) == bits_of(results.front()));
  }
  return results.front();
}

/// Makes every call in which servers take part, between steps. Returns all numbers that the calls returned.
template <Element T, GradientOf<T> G>
class Caller {
 public:
  Caller(Job& job, Config const& config) : engine_{job, model_, config} {}

  std::vector<float> run(std::filesystem::path const& folder) {
    if (engine_.serves()) {
      engine_.serve();
      return {};
    }
    metric_ = engine_.add_metric("metric");
    step();
    read();
    std::vector<float> values(300);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.01F * static_cast<float>(i % 11);
    }
    engine_.write(w_, values);
    step(0.05F);
    engine_.save_weights(folder / "weights");
    step();
    engine_.load_weights(folder / "weights");
    read();
    step();
    std::string const state = "of the program";
    SaveOptions options;
    options.program_state = std::as_bytes(std::span{state});
    engine_.save(folder / "saved", options).wait();
    step();
    read();
    resume(folder / "saved");
    read();
    static_cast<void>(engine_.finish());
    return std::move(said_);
  }
  /// Resumes after the save of run().
  std::vector<float> resume(std::filesystem::path const& folder) {
    if (engine_.serves()) {
      engine_.serve();
      return {};
    }
    if (!metric_) {
      metric_ = engine_.add_metric("metric");
    }
    static_cast<void>(engine_.finish());
    auto const restored = engine_.restore_latest(folder);
    say(static_cast<float>(restored->step));
    say(static_cast<float>(restored->samples));
    for (auto const byte : restored->program_state) {
      say(static_cast<float>(std::to_integer<int>(byte)));
    }
    step();
    step();
    read();
    return std::move(said_);
  }

 private:
  void say(float value) { said_.push_back(value); }
  void read() {
    for (auto const& [param, count] : {std::pair{w_, 300}, std::pair{frozen_, 50}, std::pair{v_, 77}}) {
      std::vector<float> values(static_cast<std::size_t>(count));
      engine_.read(param, values);
      said_.insert(said_.end(), values.begin(), values.end());
    }
  }
  template <class P>
  void add(P const& p, Param<1> const& param, std::int64_t sample, float seed) {
    auto const grad = p.grad(param);
    auto const view = p[param];
    for (std::int64_t i = 0; i < view.count(); ++i) {
      float const old = grad.beta() == 0 ? 0 : to_float(grad.data()[i]);
      grad.data()[i] = from_float<G>(old + seed * (0.5F * to_float(view.data()[i]) + noise(sample, i)));
    }
  }
  void step(std::optional<float> rate = {}) {
    for (auto micro : engine_.micro_steps()) {
      float sum = 0;
      for (auto const& [unit, param] : {std::pair{a_, w_}, std::pair{b_, v_}}) {
        auto const p = micro.forward(unit);
        sum += to_float(p[param].data()[7]);
      }
      micro.report_metric(*metric_, sum);
      float const seed = micro.report_loss(sum);
      {
        auto const p = micro.backward(b_);
        add(p, v_, micro.first_sample(), seed);
      }
      auto const p = micro.backward(a_);
      add(p, w_, micro.first_sample(), seed);
    }
    say(engine_.gradient_norm());
    say(engine_.gradient_norm(w_));
    if (auto const report = engine_.step({.learning_rate = rate})) {
      say(report->loss), say(report->grad_norm), say(report->learning_rate), say(report->loss_scale);
      say(static_cast<float>(report->metrics[*metric_]));
    }
  }

  Model model_;
  Unit a_ = model_.unit("a"), b_ = model_.unit("b");
  Param<1> w_ = model_.param(a_, "w", {300}, Normal{0.5F});
  Param<1> frozen_ = model_.param(a_, "frozen", {50}, Normal{1}, {.trainable = false});
  Param<1> v_ = model_.param(b_, "v", {77}, Normal{0.5F});
  Engine<T, G> engine_;
  std::optional<Metric> metric_;
  std::vector<float> said_;
};

/// Worker 0's results; all workers must have the same.
std::vector<float> all_calls(int world, int workers, std::string const& text, std::filesystem::path const& folder,
                             bool resumes = false) {
  std::vector<std::vector<float>> said(static_cast<std::size_t>(world));
  auto const config = Config::from_json(text);
  auto const outcome = run_job(world, [&](Job& job) {
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      Caller<T, G> caller{job, config};
      said[static_cast<std::size_t>(job.rank())] = resumes ? caller.resume(folder / "saved") : caller.run(folder);
    });
  });
  REQUIRE(messages_of(outcome) == "");
  for (int worker = 0; worker < workers; ++worker) {
    REQUIRE(bits_of(said[static_cast<std::size_t>(worker)]) == bits_of(said.front()));
  }
  return said.front();
}

}  // namespace

TEST_CASE("calls of workers with servers have the results of stage 1, and so have checkpoints") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types, bf16_masters_and_moments);
  for (int workers = 1; workers <= 3; ++workers) {
    for (int servers = 1; servers <= 3; ++servers) {
      INFO(fmt::format("{} workers, {} servers, {}", workers, servers, types.name));
      Folder const folder;
      std::filesystem::create_directory(folder / "plain");
      std::filesystem::create_directory(folder / "served");
      auto const plain = file(types, 1, 2, "every_micro_step", movements[0]);
      auto const served = file(types, 0, 2, "every_micro_step", movements[0], with_servers(servers));
      auto const expected = all_calls(workers, workers, plain, folder / "plain");
      REQUIRE(std::isfinite(expected.back()));
      REQUIRE(bits_of(all_calls(workers + servers, workers, served, folder / "served")) == bits_of(expected));
      // Each resumes from the other's checkpoint.
      auto const resumed = all_calls(workers, workers, plain, folder / "served", true);
      REQUIRE(bits_of(all_calls(workers + servers, workers, served, folder / "plain", true)) == bits_of(resumed));
    }
  }
}

TEST_CASE("workers with servers have the bits of stage 1 with every optimizer, and with folded sums") {
  for (auto const& rule : all_rules()) {
    INFO(rule.name);
    auto const text = [&](int stage, int servers) {
      return file(bf16_types, stage, 2, "every_micro_step", movements[2],
                  with_servers(servers, R"(, "same_bits_at_any_ranks": true, "check": true)"), rule.optimizer);
    };
    auto const base = train(3, text(1, 0));
    REQUIRE(std::isfinite(base.reports.back().loss));
    REQUIRE(bits_of(train_with_servers(3, 2, text(0, 2))) == bits_of(base));
  }
}

TEST_CASE("persistent units between others have the bits of stage 1") {
  auto const text = [&](int stage, std::string const& more) {
    auto result = file(bf16_types, stage, 2, "every_micro_step", movements[1], more);
    std::string const key = "\"zero_optimization\": {";
    return result.insert(result.find(key) + key.size(), "\"stage3_param_persistence_threshold\": 700, ");
  };
  auto const base = train(2, text(1, ""));
  REQUIRE(std::isfinite(base.reports.back().loss));
  REQUIRE(bits_of(train_with_servers(2, 2, text(0, with_servers(2)))) == bits_of(base));
}

TEST_CASE("one worker that may be stale has the bits of one rank: each push is an update") {
  for (auto const& types : {fp32_types, bf16_types, bf16_masters}) {
    INFO(types.name);
    auto const text = [&](int stage, int servers, int staleness) {
      auto text = file(types, stage, 3, "last_micro_step", movements[2],
                       fmt::format(R"(, "parameter_server": {{"servers": {}, "staleness": {}}})", servers, staleness));
      return text.replace(text.find("\"gradient_clipping\": 0.5"), 24, "\"gradient_clipping\": 0");
    };
    auto const base = train(1, text(1, 0, 0));
    REQUIRE(std::isfinite(base.reports.back().loss));
    for (int servers = 1; servers <= 3; ++servers) {
      REQUIRE(bits_of(train_with_servers(1, servers, text(0, servers, 2))) == bits_of(base));
    }
  }
}

TEST_CASE("workers with servers sum micro-steps in fp32 like stage 1") {
  for (auto const& types : {bf16_summed_in_fp32, fp16_summed_in_fp32, bf16_summed_and_reduced_in_fp32}) {
    INFO(types.name);
    auto const base = train(3, file(types, 1, 3, "last_micro_step", movements[1]));
    for (int servers = 1; servers <= 2; ++servers) {
      auto const text = file(types, 0, 3, "last_micro_step", movements[2], with_servers(servers));
      REQUIRE(bits_of(train_with_servers(3, servers, text)) == bits_of(base));
    }
  }
}

TEST_CASE("workers with servers have the bits of stage 1 on as many ranks") {
  auto const workers = GENERATE(1, 2, 3, 4);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const accumulation = GENERATE(1, 3);
  auto const* const reduce = GENERATE("every_micro_step", "last_micro_step");
  static Sample of_bases{2};
  if (of_bases.leaves_out()) {
    return;
  }
  INFO(fmt::format("{} workers, {}, {} micro-steps, {}", workers, types.name, accumulation, reduce));
  TrainOptions options;
  options.overflow_at_step = types.name == std::string{"fp16"} ? 2 : 0;
  auto const base = train(workers, file(types, 1, accumulation, reduce, movements[1]), options);
  REQUIRE(base.reports.size() == 4);
  REQUIRE(std::isfinite(base.reports.back().loss));
  for (int servers = 1; servers <= 4; ++servers) {
    auto const& move = movements[servers % 4];
    INFO(fmt::format("{} servers, bucket {}, overlap {}", servers, move.bucket, move.overlap));
    auto const text =
        file(types, 0, accumulation, reduce, move, with_servers(servers, servers == 2 ? R"(, "poison": true)" : ""));
    REQUIRE(bits_of(train_with_servers(workers, servers, text, options)) == bits_of(base));
  }
}

}  // namespace zeroth::testing
