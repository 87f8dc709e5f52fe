// SPDX-License-Identifier: Apache-2.0
#include "jobs/segment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <span>

#include "jobs/program.hpp"
#include "jobs/random.hpp"
#include "jobs/stage_file.hpp"
#include "support/noise.hpp"

namespace zeroth::testing::jobs {
namespace {

Config config_at(Choice const& choice, std::vector<DrawnUnit> const& units, Place const& place) {
  return config_of(choice,
                   place.is_reference ? reference_file(choice, place.folder) : stage_file(choice, units, place.folder));
}

constexpr int never = std::numeric_limits<int>::max();

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

}  // namespace

Segment::Segment(Job& job, Drawn const& drawn, bool again, bool stop_asked, Place const& place, Record& record)
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
      kept_{place.is_reference || is_of_pipeline(choice_, place) || serves()
                ? nullptr
                : KeptInputs::of(engine_, built_, config_)},
      walk_{drawn,
            choice_,
            built_,
            engine_.place(),
            (mesh_ ? mesh_->data().world() : job.world()) - config_.parameter_server().servers,
            tensor_.get(),
            place.is_reference,
            kept_.get()},
      plan_{plan(built_.model, config_, job.world(), {.transport = place.transport})},
      traffic_{plan_, choice_} {
  if (serves()) {
    return;
  }
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

void Segment::serve() {
  engine_.serve();
  check_bytes();
}

void Segment::restore() {
  RestoreOptions options;
  if (choice_.is("data", "told")) {
    expect_refusal_of_other_data();
    options.order = data_of(drawn_);
  }
  std::int64_t read = 0, all = 0;
  options.progress = [&](std::int64_t done, std::int64_t of) {
    read = done > read && done <= of ? done : -1;
    all = of;
  };
  auto const folder = place_.folder / "to go on from";
  auto const restored = choice_.is("goes on from", "the latest")
                            ? engine_.restore_latest(folder, options).value()
                            : engine_.restore(folder / fmt::format("step_{:08}", drawn_.saved_at), options);
  if (read != all) {
    record_.complain(fmt::format("a restore told its progress up to {} of {} bytes", read, all));
  }
  if (restored.step != drawn_.saved_at) {
    record_.complain(fmt::format("restored step {} of {}", restored.step, drawn_.saved_at));
  }
  if (restored.program_state != program_state_of(drawn_, drawn_.saved_at)) {
    record_.complain(fmt::format("restored {} bytes of a program's state, which are not those that rank 0 saved",
                                 restored.program_state.size()));
  }
  check_rank_states(restored);
  show_saved();
  save(place_.folder / "restored", drawn_.saved_at).wait();
  restored_ = true;
  stops_from_ = stops_from_ == never ? never : 0;
  traffic_.disturb();
}

void Segment::steps(int first, int last) {
  for (int step = first; step <= last; ++step) {
    make(step);
  }
  show(engine_.finish());
}

void Segment::end() {
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

void Segment::check_bytes() {
  auto const& bytes = serves()                 ? plan_.servers.bytes
                      : plan_.pipeline.empty() ? plan_.bytes
                                               : plan_.pipeline[stage()].bytes;
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

std::unique_ptr<TensorSums> Segment::tensor_sums() {
  bool const sequence = moves("sequence parallelism", "yes");
  return choice_.is_plain("zeroth.mesh.tensor")
             ? nullptr
             : std::make_unique<TensorSums>(mesh_->tensor(), sequence, engine_.compute_dtype());
}

std::size_t Segment::count_of(AnyParam const& param) {
  std::int64_t count = 1;
  for (auto const extent : param.global_shape()) {
    count *= extent;
  }
  return static_cast<std::size_t>(count);
}

void Segment::expect_refusal_of_other_data() {
  try {
    engine_.restore(place_.folder / "to go on from", {.order = SampleOrder{1001, {.seed = drawn_.seed}}});
    record_.complain("a checkpoint of other data was restored");
  } catch (ContractError const&) {  // before anything was changed
  }
}

Saving Segment::save(std::filesystem::path const& folder, int step) {
  SaveOptions options;
  auto const state = job_.rank() == 0 ? program_state_of(drawn_, step) : std::vector<std::byte>(3);
  options.program_state = state;
  std::vector<std::byte> own;
  if (choice_.is("rank state", "of each rank")) {
    auto const at = mesh_ ? mesh_->place() : Mesh::Place{.stage = 0, .data = 0, .tensor = 0};
    own = rank_state_of(drawn_, step, {.data = engine_.place(), .tensor = at.tensor, .stage = at.stage});
    options.rank_state = own;
  }
  if (choice_.is("data", "told")) {
    options.order = data_of(drawn_);
  }
  if (!choice_.is("keeps", "what the file says")) {
    options.keep = 1;
    options.keep_every = choice_.is("keeps", "every second") ? 2 : 0;
    options.keep_for = std::chrono::hours{choice_.is("keeps", "of the last hour") ? 1 : 0};
  }
  return engine_.save(folder, options);
}

void Segment::check_rank_states(Restored const& restored) {
  if (drawn_.choice["rank state"] == "none" || job_.rank() > 0) {
    return;
  }
  auto const& ranks = restored.ranks;
  for (int i = 0; i < ranks.stages * ranks.tensor * ranks.data; ++i) {
    checkpoint::SavedRank const rank{
        .data = i % ranks.data, .tensor = i / ranks.data % ranks.tensor, .stage = i / ranks.data / ranks.tensor};
    if (checkpoint::read_rank_state(restored.path, rank) != rank_state_of(drawn_, drawn_.saved_at, rank)) {
      record_.complain(fmt::format("the rank state of stage {}, tensor rank {}, data rank {} is not what was saved",
                                   rank.stage, rank.tensor, rank.data));
    }
  }
}

void Segment::ask_to_stop(int step) {
  if (moves("stop", "asked for") && step == drawn_.stops_at) {
    if (job_.rank() == asking_rank(drawn_, job_.world() - config_.parameter_server().servers)) {
      job_.request_stop();
    }
    stops_from_ = std::min(stops_from_, step);
  }
}

void Segment::gradient_norms(int step) {
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

void Segment::micro_steps(int step) {
  auto const passes = engine_.micro_steps();
  int index = 0;
  for (auto pass = passes.begin(); pass != passes.end(); ++pass) {
    bool runs_again = false;
    {
      auto micro = *pass;
      runs_again = micro.runs_again();
      if (index == 0 && micro.first_sample() != engine_.first_sample() + engine_.place() * engine_.micro_batch()) {
        record_.complain(fmt::format("step {} begins with sample {} in its first pass, and with {} as the engine says",
                                     step, micro.first_sample(), engine_.first_sample()));
      }
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

void Segment::actions(int step) {
  bool first = true;
  for (auto work : engine_.schedule()) {
    stage_walk_->train(work, step, metrics_);
    if (first) {
      ask_to_stop(step);
    }
    first = false;
  }
}

void Segment::make(int step) {
  if (moves("trace", "a step")) {
    engine_.trace(step % 3 == 2 ? &timeline_ : nullptr);
  }
  if (choice_.is("rate factors", "changed")) {
    // They depend only on the step: an engine that returns to an earlier step keeps its current ones.
    engine_.set_learning_rate_factors([step](std::string const& name) {
      auto const kind = name.size() + static_cast<unsigned char>(name.back());
      auto const of_step = static_cast<float>((kind + static_cast<std::size_t>(step)) % 3);
      return kind % 4 == 3 ? std::nullopt : std::optional{0.5F * of_step};
    });
  }
  stage_walk_ ? actions(step) : micro_steps(step);
  if (choice_.is("gradient edits", "clipped by value")) {
    engine_.edit_gradients(clip);
  }
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
    if (choice_.is("zeroth.delayed_update", "true")) {  // a save does that too
      show(engine_.finish());
    }
    show_saved();
  }
  if (step == drawn_.saved_at && goes_on(drawn_, place_)) {
    static_cast<void>(save(place_.folder / "to go on from", step));
    traffic_.disturb();
  }
}

void Segment::save_beside(int step) {
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

void Segment::between_micro_steps(int step) {
  if (choice_.is("evaluates", "between micro-steps") && step % 2 == 1) {
    evaluate(step, 1);
  }
  if (choice_.is("reads", "between micro-steps") && step % 2 == 0) {
    read(step);
  }
}

void Segment::between_steps(int step) {
  if (choice_.is("evaluates", "between steps") && step % 2 == 0) {
    evaluate(step, 2);
  }
  if (choice_.is("reads", "between steps")) {
    read(step);
  }
  if (!choice_.is_plain("zeroth.ema.decay") && step % 2 == 0) {
    averages(step);
  }
  if (choice_.is("writes", "at times") && step % 2 == 1) {
    write(step);
  }
  if (choice_.is("weight file", "saved and loaded") && step == 2) {
    weight_file();
  }
}

void Segment::averages(int step) {
  engine_.swap_ema();
  std::vector<float> values;
  for (auto const& [name, param] : built_.params) {
    values.resize(count_of(param));
    engine_.read(param, values);
    record_.add(fmt::format("{}step {}: average of {}", prefix_, step, name), values);
  }
  engine_.swap_ema();
  traffic_.disturb();
}

void Segment::evaluate(int step, int passes, char const* when) {
  auto const evaluation = engine_.evaluation(passes);
  for (auto pass : evaluation) {
    stage_walk_ ? stage_walk_->evaluate(pass) : walk_.evaluate(pass);
  }
  std::array<float, 1> const loss{evaluation.mean_loss()};
  record_.add(fmt::format("{}step {}: evaluation {}", prefix_, step, when), std::span<float const>{loss});
  traffic_.disturb();
}

void Segment::show_values() {
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

std::vector<float> Segment::of_tensor_ranks(std::vector<float> const& own) {
  if (!tensor_) {
    return own;
  }
  std::vector<double> all(own.size() * static_cast<std::size_t>(mesh_->tensor().world()));
  std::ranges::copy(own, all.begin() + std::ssize(own) * tensor_->index());
  mesh_->tensor().sum(all);
  return {all.begin(), all.end()};
}

void Segment::show_saved() {
  std::vector<float> values;
  for (auto const& [name, param] : built_.params) {
    values.resize(count_of(param));
    engine_.read(param, values);
    record_.add("saved " + name, values);
  }
  traffic_.disturb();
}

void Segment::read(int step) {
  Random random{drawn_.seed + static_cast<std::uint64_t>(step), "read"};
  auto const& [name, param] = random.among(built_.params);
  std::vector<float> values(count_of(param));
  engine_.read(param, values);
  record_.add(fmt::format("{}step {}: {} read", prefix_, step, name), values);
  traffic_.disturb();
}

void Segment::write(int step) {
  Random random{drawn_.seed + static_cast<std::uint64_t>(step), "write"};
  auto const& [name, param] = random.among(built_.params);
  std::vector<float> values(count_of(param));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.3F * noise(step, static_cast<std::int64_t>(i));
  }
  engine_.write(param, values);
  traffic_.disturb();
}

void Segment::weight_file() {
  auto const file = place_.folder / "weights.safetensors";
  engine_.save_weights(file);
  engine_.load_weights(file);
  traffic_.disturb();
}

void Segment::show(std::optional<StepReport> const& report) {
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
  if (report->staleness < 0 || report->staleness > config_.parameter_server().staleness) {
    record_.complain(fmt::format("{} has staleness {}, the bound is {}", name, report->staleness,
                                 config_.parameter_server().staleness));
  }
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

}  // namespace zeroth::testing::jobs
