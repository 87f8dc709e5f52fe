// SPDX-License-Identifier: Apache-2.0
#include "jobs/rank_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/saved.hpp"
#include "jobs/built_model.hpp"
#include "jobs/disk_traffic.hpp"
#include "jobs/program.hpp"
#include "jobs/random.hpp"
#include "jobs/stage_file.hpp"
#include "jobs/stage_walk.hpp"
#include "jobs/walk.hpp"
#include "support/noise.hpp"
#include "zeroth/tool/core/input_file.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing::jobs {
namespace {

Config config_at(Choice const& choice, std::vector<DrawnUnit> const& units, Place const& place) {
  return config_of(choice,
                   place.is_reference ? reference_file(choice, place.folder) : stage_file(choice, units, place.folder));
}

constexpr int never = std::numeric_limits<int>::max();

/// What goes on with as many ranks has to be as if it had never ended: its reference does not.
bool goes_on(Drawn const& drawn, Place const& place) {
  return drawn.saved_at > 0 && (!place.is_reference || drawn.changes_ranks());
}

int asking_rank(Drawn const& drawn, int ranks) { return static_cast<int>(drawn.seed % static_cast<unsigned>(ranks)); }

/// Those that go on know of it if the whole job was asked, and the rank that asked is among them.
bool is_still_asked_to_stop(Drawn const& drawn, Place const& place) {
  return !place.is_reference && drawn.choice.is("stop", "asked for") && drawn.world() == drawn.most_of_world() &&
         asking_rank(drawn, drawn.world()) < drawn.world_that_goes_on();
}

bool is_of_pipeline(Choice const& choice, Place const& place) {
  return !place.is_reference && !choice.is_plain("zeroth.mesh.pipeline");
}

/// None without a key, so that engines on a job are drawn as well as those on a mesh of one stage.
std::optional<Mesh> mesh_of(Job& job, Choice const& choice, Config const& config, Place const& place) {
  if (!is_of_pipeline(choice, place) && choice.is_plain("zeroth.mesh.tensor")) {
    return {};
  }
  return std::optional<Mesh>{std::in_place, job, config};
}

AnyEngine make_engine(std::optional<Mesh>& mesh, Job& job, Model const& model, Config const& config) {
  if (mesh) {
    return AnyEngine{*mesh, model, config};
  }
  return AnyEngine{job, model, config};
}

/// One engine, on `job`.
class Segment {
 public:
  /// `again`: the one that goes on. `stop_asked`: a rank of this job has asked to stop before.
  Segment(Job& job, Drawn const& drawn, bool again, bool stop_asked, Place const& place, Record& record)
      : job_{job},
        drawn_{drawn},
        choice_{again ? drawn.resumed : drawn.choice},
        prefix_{again && drawn.changes_ranks() ? "on other ranks, " : ""},
        restored_{again},
        stops_from_{stop_asked ? 0 : never},
        place_{place},
        record_{record},
        config_{config_at(choice_, drawn.units, place)},
        mesh_{mesh_of(job, choice_, config_, place)},
        built_{drawn, mesh_ ? mesh_->tensor_part() : TensorPart{}, again},
        engine_{make_engine(mesh_, job, built_.model, config_)},
        tensor_{tensor_sums()},
        walk_{drawn, choice_, built_, engine_.place(), mesh_ ? mesh_->data().world() : job.world(), tensor_.get()},
        plan_{plan(built_.model, config_, job.world(), {.transport = place.transport})},
        traffic_{plan_, choice_} {
    if (is_of_pipeline(choice_, place)) {
      stage_walk_.emplace(drawn, choice_, built_, walk_, engine_.compute_dtype(), engine_.in_flight());
    }
    if (choice_.is("metrics", "two")) {
      metrics_ = {engine_.add_metric("first"), engine_.add_metric("second")};
    }
    if (moves("own monitor", "one")) {
      engine_.add_monitor(std::make_unique<Counter>(events_));
    }
    if (moves("trace", "all steps")) {
      engine_.trace(&timeline_);
    }
  }

  void restore() {
    RestoreOptions options;
    if (choice_.is("data", "told")) {
      expect_refusal_of_other_data();
      options.order = data_of(drawn_);
    }
    auto const folder = place_.folder / "to go on from";
    auto const restored = choice_.is("goes on from", "the latest")
                              ? engine_.restore_latest(folder, options).value()
                              : engine_.restore(folder / fmt::format("step_{:08}", drawn_.saved_at), options);
    if (restored.step != drawn_.saved_at) {
      record_.complain(fmt::format("restored step {} of {}", restored.step, drawn_.saved_at));
    }
    if (restored.program_state != program_state_of(drawn_, drawn_.saved_at)) {
      record_.complain(fmt::format("restored {} bytes of a program's state, which are not those that rank 0 saved",
                                   restored.program_state.size()));
    }
    show_saved();
    save(place_.folder / "restored", drawn_.saved_at).wait();
    restored_ = true;
    stops_from_ = stops_from_ == never ? never : 0;
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
    show_values();
    save(place_.folder / "end", drawn_.steps).wait();
    check_bytes();
  }

  void check_bytes() {
    auto const& bytes = plan_.pipeline.empty() ? plan_.bytes : plan_.pipeline[stage()].bytes;
    if (!(engine_.planned() == engine_.peak() && engine_.planned() == bytes)) {
      record_.complain(fmt::format("{} bytes planned, {} by the engine, {} measured", bytes.total(),
                                   engine_.planned().total(), engine_.peak().total()));
    }
    if (!has_plan_of_disk()) {
      return;
    }
    if (auto const problem = traffic_.file_problem(engine_.bytes_on_disk()); !problem.empty()) {
      record_.complain(problem);
    }
  }

 private:
  [[nodiscard]] std::unique_ptr<TensorSums> tensor_sums() {
    bool const sequence = moves("sequence parallelism", "yes");
    return choice_.is_plain("zeroth.mesh.tensor")
               ? nullptr
               : std::make_unique<TensorSums>(mesh_->tensor(), sequence, engine_.compute_dtype());
  }
  [[nodiscard]] std::size_t stage() const { return mesh_ ? static_cast<std::size_t>(mesh_->place().stage) : 0; }
  /// Of a pipeline, the plan says of one stage what is on a disk.
  [[nodiscard]] bool has_plan_of_disk() const { return plan_.pipeline.empty() || plan_.largest_stage == stage(); }
  /// What the reference leaves out.
  [[nodiscard]] bool moves(char const* option, char const* value) const {
    return !place_.is_reference && choice_.is(option, value);
  }
  static std::size_t count_of(AnyParam const& param) {
    std::int64_t count = 1;
    for (auto const extent : param.global_shape()) {
      count *= extent;
    }
    return static_cast<std::size_t>(count);
  }

  void expect_refusal_of_other_data() {
    try {
      engine_.restore(place_.folder / "to go on from", {.order = SampleOrder{1001, {.seed = drawn_.seed}}});
      record_.complain("a checkpoint of other data was restored");
    } catch (ContractError const&) {  // before anything was changed
    }
  }

  Saving save(std::filesystem::path const& folder, int step) {
    SaveOptions options;
    auto const state = job_.rank() == 0 ? program_state_of(drawn_, step) : std::vector<std::byte>(3);
    options.program_state = state;
    if (choice_.is("data", "told")) {
      options.order = data_of(drawn_);
    }
    if (!choice_.is("keeps", "what the file says")) {
      options.keep = 1;
      options.keep_every = choice_.is("keeps", "every second") ? 2 : 0;
    }
    return engine_.save(folder, options);
  }

  /// One rank asks, in the middle of the step; the reports of this one and of all that follow say so on all ranks.
  void ask_to_stop(int step) {
    if (moves("stop", "asked for") && step == drawn_.stops_at) {
      if (job_.rank() == asking_rank(drawn_, job_.world())) {
        job_.request_stop();
      }
      stops_from_ = std::min(stops_from_, step);
    }
  }

  void gradient_norms(int step) {
    std::array<float, 1> norm{engine_.gradient_norm()};
    record_.add(fmt::format("{}step {}: norm ahead of the update", prefix_, step), std::span<float const>{norm});
    if (choice_.is("gradient norm", "of a parameter")) {
      for (auto const& [name, param] : built_.params) {
        if (drawn_.trains(name)) {
          norm = {engine_.gradient_norm(param)};
          record_.add(fmt::format("{}step {}: norm of {}", prefix_, step, name), std::span<float const>{norm});
        }
      }
    }
    if (choice_.is("gradient norm", "before an evaluation")) {
      evaluate(step, 1, "ahead of the update");
    }
  }

  void micro_steps(int step) {
    auto const passes = engine_.micro_steps();
    int index = 0;
    for (auto pass = passes.begin(); pass != passes.end(); ++pass) {
      bool runs_again = false;
      {
        auto micro = *pass;
        runs_again = micro.runs_again();
        walk_.train(micro, {step, index}, metrics_);
      }
      if (runs_again) {
        traffic_.disturb();
        continue;
      }
      if (index == 0) {
        ask_to_stop(step);
        between_micro_steps(step);
      }
      ++index;
    }
  }

  void actions(int step) {
    bool first = true;
    for (auto work : engine_.schedule()) {
      stage_walk_->train(work, step, metrics_);
      if (first) {
        ask_to_stop(step);
      }
      first = false;
    }
  }

  void make(int step) {
    if (moves("trace", "a step")) {
      engine_.trace(step % 3 == 2 ? &timeline_ : nullptr);
    }
    stage_walk_ ? actions(step) : micro_steps(step);
    if (!choice_.is_plain("gradient norm")) {
      gradient_norms(step);
    }
    bool const given = choice_.is("given rate", "at times") && step % 2 == 0;
    show(engine_.step({.learning_rate = given ? std::optional<float>{0.005F} : std::nullopt}));
    traffic_.step_made(step);
    if (moves("finish", "at times") && step % 2 == 1) {
      show(engine_.finish());
    }
    save_beside(step);
    between_steps(step);
    if (step == drawn_.saved_at) {
      show_saved();
    }
    if (step == drawn_.saved_at && goes_on(drawn_, place_)) {
      static_cast<void>(save(place_.folder / "to go on from", step));
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
      auto saving = save(place_.folder / "others", step);
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

  void evaluate(int step, int passes, char const* when = "between") {
    auto const evaluation = engine_.evaluation(passes);
    for (auto pass : evaluation) {
      stage_walk_ ? stage_walk_->evaluate(pass) : walk_.evaluate(pass);
    }
    std::array<float, 1> const loss{evaluation.mean_loss()};
    record_.add(fmt::format("{}step {}: evaluation {}", prefix_, step, when), std::span<float const>{loss});
    traffic_.disturb();
  }

  /// Each rank shows those of its stage.
  void show_values() {
    auto const name = [](std::size_t unit) { return fmt::format("in the end unit {} as forward reads it", unit); };
    std::set<std::size_t> shown;
    for (auto pass : engine_.evaluation(1)) {
      for (auto const& [unit, values] : stage_walk_ ? stage_walk_->values(pass) : walk_.values(pass)) {
        record_.add(name(unit), of_tensor_ranks(values));
        shown.insert(unit);
      }
    }
    for (std::size_t unit = 0; unit < built_.units.size(); ++unit) {
      if (!shown.contains(unit)) {
        record_.leave_out(name(unit));
      }
    }
  }

  /// What each of them has of it, one behind the other.
  std::vector<float> of_tensor_ranks(std::vector<float> const& own) {
    if (!tensor_) {
      return own;
    }
    std::vector<double> all(own.size() * static_cast<std::size_t>(mesh_->tensor().world()));
    std::ranges::copy(own, all.begin() + std::ssize(own) * tensor_->index());
    mesh_->tensor().sum(all);
    return {all.begin(), all.end()};
  }

  /// Right before a checkpoint, and right after it was restored: all parameters are the same.
  void show_saved() {
    std::vector<float> values;
    for (auto const& [name, param] : built_.params) {
      values.resize(count_of(param));
      engine_.read(param, values);
      record_.add("saved " + name, values);
    }
    traffic_.disturb();
  }

  void read(int step) {
    Random random{drawn_.seed + static_cast<std::uint64_t>(step), "read"};
    auto const& [name, param] = random.among(built_.params);
    std::vector<float> values(count_of(param));
    engine_.read(param, values);
    record_.add(fmt::format("{}step {}: {} read", prefix_, step, name), values);
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
    auto const name = fmt::format("{}step {}", prefix_, report->step);
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
    if (report->stop != (report->step >= stops_from_)) {
      record_.complain(fmt::format("{} says stop: {}", name, report->stop));
    }
    record_.count((restored_ ? "once restored, " : "") + name +
                      " (gathered, across groups, reduced, misses, across groups, slots, slots, read)",
                  static_cast<int>(stage()), counts);
    if (auto const problem = traffic_.step_problem(*report); has_plan_of_disk() && !problem.empty()) {
      record_.complain(problem);
    }
  }

  Job& job_;
  Drawn const& drawn_;
  Choice const& choice_;
  std::string prefix_;  // of names where a step that is made again has other bits
  bool restored_;
  int stops_from_;  // the first step whose report says so
  Place const& place_;
  Record& record_;
  Config config_;
  Timeline timeline_;
  std::int64_t events_ = 0;
  std::optional<Mesh> mesh_;
  BuiltModel built_;
  AnyEngine engine_;
  std::unique_ptr<TensorSums> tensor_;  // with tensor ranks
  Walk walk_;
  std::optional<StageWalk> stage_walk_;  // in a pipeline
  Plan plan_;
  DiskTraffic traffic_;
  std::vector<Metric> metrics_;
};

/// `run`, on a job of `job`'s first ranks.
template <class Run>
void on_first(Job& job, int ranks, Record& record, Run const& run) {
  if (ranks == job.world()) {
    run(job);
    return;
  }
  bool const takes_part = job.rank() < ranks;
  auto part = job.split(takes_part ? 0 : 1, 0, "part");
  if (takes_part) {
    run(part);
  } else {
    record.leave_out();
  }
}

}  // namespace

void run_rank(Job& job, Drawn const& drawn, Place const& place, Record& record) {
  bool const stays = drawn.choice.is("goes on", "in the same engine");
  bool const goes_on_later = goes_on(drawn, place) && !stays;
  auto const ranks = place.is_reference ? drawn.world_of_reference() : drawn.world();
  on_first(job, ranks, record, [&](Job& part) {
    Segment segment{part, drawn, false, false, place, record};
    segment.steps(1, goes_on(drawn, place) ? drawn.goes_on_at : drawn.steps);
    if (goes_on(drawn, place) && stays) {
      segment.restore();
      segment.steps(drawn.saved_at + 1, drawn.steps);
    }
    goes_on_later ? segment.check_bytes() : segment.end();
  });
  if (goes_on_later) {
    auto const next = place.is_reference ? drawn.world_of_reference_that_goes_on() : drawn.world_that_goes_on();
    on_first(job, next, record, [&](Job& part) {
      Segment segment{part, drawn, true, is_still_asked_to_stop(drawn, place), place, record};
      segment.restore();
      segment.steps(drawn.saved_at + 1, drawn.steps);
      segment.end();
    });
    std::array<double, 1> ended{};
    job.sum(ended);  // so that who had no part in the end finds its files
  }
}

void add_states(Drawn const& drawn, Place const& place, Record& record) {
  auto const states = [&](char const* folder, int step) {
    return states_in(place.folder / folder / fmt::format("step_{:08}", step));
  };
  for (auto const& [name, bytes] : states("end", drawn.steps)) {
    record.add_bytes("in the end state " + name, bytes);
  }
  if (goes_on(drawn, place) && states("to go on from", drawn.saved_at) != states("restored", drawn.saved_at)) {
    record.complain("the states right after the restore are not those of the checkpoint");
  }
  if (drawn.choice.is("weight file", "saved and loaded") && drawn.steps >= 2) {
    InputFile const file{place.folder / "weights.safetensors"};
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes()));
    file.read(0, bytes);
    record.add_bytes("weights.safetensors", bytes);
  }
}

}  // namespace zeroth::testing::jobs
