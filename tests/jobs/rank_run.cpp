// SPDX-License-Identifier: Apache-2.0
#include "jobs/rank_run.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/saved.hpp"
#include "jobs/built_model.hpp"
#include "jobs/disk_traffic.hpp"
#include "jobs/random.hpp"
#include "jobs/stage_file.hpp"
#include "jobs/walk.hpp"
#include "support/noise.hpp"
#include "support/rules.hpp"
#include "zeroth/core/input_file.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing::jobs {
namespace {

class Counter final : public Monitor {
 public:
  explicit Counter(std::int64_t& events) : events_{events} {}
  void write(std::span<MonitorEvent const> events) override { events_ += static_cast<std::int64_t>(events.size()); }

 private:
  std::int64_t& events_;
};

Config config_of(Choice const& choice, Place const& place) {
  auto const file = place.is_reference ? reference_file(choice, place.folder) : stage_file(choice, place.folder);
  auto config = Config::from_json(file.dump());
  return choice.is("optimizer", "a rule of its own") ? config.with(own_momentum()) : config;
}

/// One engine, from the step after `made` on.
class Segment {
 public:
  Segment(Job& job, Drawn const& drawn, Choice const& choice, Place const& place, Record& record)
      : drawn_{drawn},
        choice_{choice},
        place_{place},
        record_{record},
        built_{drawn},
        config_{config_of(choice, place)},
        engine_{job, built_.model, config_},
        walk_{drawn, choice, built_, engine_.place(), job.world()},
        plan_{plan(built_.model, config_, job.world(), {.transport = place.transport})},
        traffic_{plan_, choice} {
    if (choice.is("metrics", "two")) {
      metrics_ = {engine_.add_metric("first"), engine_.add_metric("second")};
    }
    if (moves("own monitor", "one")) {
      engine_.add_monitor(std::make_unique<Counter>(events_));
    }
    if (moves("trace", "all steps")) {
      engine_.trace(&timeline_);
    }
  }

  void restore(std::filesystem::path const& folder) {
    auto const restored = engine_.restore(folder);
    if (restored.step != drawn_.saved_at) {
      record_.complain(fmt::format("restored step {} of {}", restored.step, drawn_.saved_at));
    }
    traffic_.disturb();
  }

  void steps(int first, int last) {
    for (int step = first; step <= last; ++step) {
      make(step);
    }
    show(engine_.finish());
  }

  void end() {
    std::vector<float> values;
    for (auto const& [name, param] : built_.params) {
      values.resize(count_of(param));
      engine_.read(param, values);
      record_.add("in the end " + name, values);
    }
    for (auto pass : engine_.evaluation(1)) {
      record_.add("in the end as forward reads it", walk_.values(pass));
    }
    engine_.save(place_.folder / "end").wait();
    check_bytes();
  }

  void check_bytes() {
    if (!(engine_.planned() == engine_.peak() && engine_.planned() == plan_.bytes)) {
      record_.complain(fmt::format("{} bytes planned, {} by the engine, {} measured", plan_.bytes.total(),
                                   engine_.planned().total(), engine_.peak().total()));
    }
    if (auto const problem = traffic_.file_problem(engine_.bytes_on_disk()); !problem.empty()) {
      record_.complain(problem);
    }
  }

 private:
  /// What the reference leaves out.
  [[nodiscard]] bool moves(char const* option, char const* value) const {
    return !place_.is_reference && choice_.is(option, value);
  }
  static std::size_t count_of(AnyParam const& param) {
    std::int64_t count = 1;
    for (auto const extent : param.shape()) {
      count *= extent;
    }
    return static_cast<std::size_t>(count);
  }

  void make(int step) {
    if (moves("trace", "a step")) {
      engine_.trace(step % 3 == 2 ? &timeline_ : nullptr);
    }
    auto const passes = engine_.micro_steps();
    int index = 0;
    for (auto pass = passes.begin(); pass != passes.end(); ++pass, ++index) {
      {
        auto micro = *pass;
        walk_.train(micro, {step, index}, metrics_);
      }
      if (index == 0) {
        between_micro_steps(step);
      }
    }
    if (choice_.is("gradient norm", "ahead of the update")) {
      std::array<float, 1> const norm{engine_.gradient_norm()};
      record_.add(fmt::format("step {}: norm ahead of the update", step), std::span<float const>{norm});
    }
    bool const given = choice_.is("given rate", "at times") && step % 2 == 0;
    show(engine_.step({.learning_rate = given ? std::optional<float>{0.005F} : std::nullopt}));
    traffic_.step_made(step);
    if (moves("finish", "at times") && step % 2 == 1) {
      show(engine_.finish());
    }
    save_beside(step);
    between_steps(step);
    if (!place_.is_reference && step == drawn_.saved_at) {
      static_cast<void>(engine_.save(place_.folder / "to go on from"));
      traffic_.disturb();
    }
  }

  /// Saves a checkpoint that no job goes on from. This comes before everything else between two steps.
  void save_beside(int step) {
    if (place_.is_reference) {
      return;
    }
    bool const always = choice_.is("saves", "one after another");
    if (always || (!choice_.is("saves", "in the end") && step % 2 == 0)) {
      auto saving = engine_.save(place_.folder / "others");
      if (choice_.is("saves", "waiting")) {
        saving.wait();
      }
      traffic_.disturb();
    }
  }

  void between_micro_steps(int step) {
    if (choice_.is("evaluates", "between micro-steps") && step % 2 == 1) {
      evaluate(step, 1);
    }
    if (choice_.is("reads", "between micro-steps") && step % 2 == 0) {
      read(step);
    }
  }

  void between_steps(int step) {
    if (choice_.is("evaluates", "between steps") && step % 2 == 0) {
      evaluate(step, 2);
    }
    if (choice_.is("reads", "between steps")) {
      read(step);
    }
    if (choice_.is("writes", "at times") && step % 2 == 1) {
      write(step);
    }
    if (choice_.is("weight file", "saved and loaded") && step == 2) {
      weight_file();
    }
  }

  void evaluate(int step, int passes) {
    auto const evaluation = engine_.evaluation(passes);
    for (auto pass : evaluation) {
      walk_.evaluate(pass);
    }
    std::array<float, 1> const loss{evaluation.mean_loss()};
    record_.add(fmt::format("step {}: evaluation", step), std::span<float const>{loss});
    traffic_.disturb();
  }

  void read(int step) {
    Random random{drawn_.seed + static_cast<std::uint64_t>(step), "read"};
    auto const& [name, param] = random.among(built_.params);
    std::vector<float> values(count_of(param));
    engine_.read(param, values);
    record_.add(fmt::format("step {}: {} read", step, name), values);
    traffic_.disturb();
  }

  void write(int step) {
    Random random{drawn_.seed + static_cast<std::uint64_t>(step), "write"};
    auto const& [name, param] = random.among(built_.params);
    std::vector<float> values(count_of(param));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.3F * noise(step, static_cast<std::int64_t>(i));
    }
    engine_.write(param, values);
    traffic_.disturb();
  }

  void weight_file() {
    auto const file = place_.folder / "weights.safetensors";
    engine_.save_weights(file);
    engine_.load_weights(file);
    traffic_.disturb();
  }

  void show(std::optional<StepReport> const& report) {
    if (!report) {
      return;
    }
    auto const name = fmt::format("step {}", report->step);
    std::array<float, 6> const numbers{report->loss,
                                       report->grad_norm,
                                       report->learning_rate,
                                       report->loss_scale,
                                       report->skipped ? 1.0F : 0.0F,
                                       report->nonfinite ? 1.0F : 0.0F};
    record_.add(name + " (loss, norm, rate, scale, skipped, not finite)", std::span<float const>{numbers});
    for (auto const& metric : metrics_) {
      std::array<double, 1> const mean{report->metrics[metric]};
      record_.add(fmt::format("{}, metric {}", name, metric.index()), std::span<double const>{mean});
    }
    std::array<std::int64_t, 8> const counts{report->gathered_bytes,
                                             report->gathered_across_groups_bytes,
                                             report->reduced_bytes,
                                             report->prefetch_misses,
                                             report->reduced_across_groups_bytes,
                                             report->parameter_slots_used,
                                             report->gradient_slots_used,
                                             report->disk_read_bytes};
    record_.count(name + " (gathered, across groups, reduced, misses, across groups, slots, slots, read)", counts);
    if (auto const problem = traffic_.step_problem(*report); !problem.empty()) {
      record_.complain(problem);
    }
  }

  Drawn const& drawn_;
  Choice const& choice_;
  Place const& place_;
  Record& record_;
  BuiltModel built_;
  Config config_;
  Timeline timeline_;
  std::int64_t events_ = 0;
  AnyEngine engine_;
  Walk walk_;
  Plan plan_;
  DiskTraffic traffic_;
  std::vector<Metric> metrics_;
};

}  // namespace

void run_rank(Job& job, Drawn const& drawn, Place const& place, Record& record) {
  bool const goes_on = !place.is_reference && drawn.saved_at > 0;
  auto segment = std::make_unique<Segment>(job, drawn, drawn.choice, place, record);
  segment->steps(1, goes_on ? drawn.goes_on_at : drawn.steps);
  if (goes_on) {
    if (!drawn.choice.is("goes on", "in the same engine")) {
      segment->check_bytes();
      segment.reset();
      segment = std::make_unique<Segment>(job, drawn, drawn.resumed, place, record);
    }
    segment->restore(place.folder / "to go on from" / fmt::format("step_{:08}", drawn.saved_at));
    segment->steps(drawn.saved_at + 1, drawn.steps);
  }
  segment->end();
}

void add_states(Drawn const& drawn, Place const& place, Record& record) {
  for (auto const& [name, bytes] : states_in(place.folder / "end" / fmt::format("step_{:08}", drawn.steps))) {
    record.add_bytes("in the end state " + name, bytes);
  }
  if (drawn.choice.is("weight file", "saved and loaded") && drawn.steps >= 2) {
    InputFile const file{place.folder / "weights.safetensors"};
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes()));
    file.read(0, bytes);
    record.add_bytes("weights.safetensors", bytes);
  }
}

}  // namespace zeroth::testing::jobs
