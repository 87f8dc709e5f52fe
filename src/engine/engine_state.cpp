#include "engine/engine_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "comm/rank_error.hpp"
#include "core/fnv.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::detail {

using engine::Verb;
using stage::PassKind;
using stage::Phase;
using stage::Turn;

namespace {

/// A sum over ranks must not overflow fp16: every seed carries 1 / 2^ceil(log2 world), and the update takes it back.
float prescale_for(Dtype reduce, int world) noexcept {
  return reduce == Dtype::fp16 ? 1.0F / static_cast<float>(std::bit_ceil(static_cast<unsigned>(world))) : 1.0F;
}

/// ": " and the message, or nothing.
std::string cause_of(std::exception_ptr const& error) {
  if (!error) {
    return {};
  }
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& e) {
    return fmt::format(": {}", e.what());
  } catch (...) {
    return {};
  }
}

/// A communicator of all ranks, for gathers or for reductions.
std::shared_ptr<comm::Communicator> split_off(JobState& job, Settings const& settings, bool gathers) {
  auto& all = *job.communicator;
  all.set_options({.timeout = settings.timeout, .copy_engine = gathers && settings.copy_engine_gather});
  return all.split(0, all.rank(), settings.single_communicator ? "all" : gathers ? "gather" : "reduce");
}

void check_types(Config const& config, Dtype compute, Dtype gradient) {
  auto const refuse = [](char const* what, Dtype file, Dtype program, char const* key) {
    throw ConfigError{
        fmt::format("the stage file says {} dtype {} ({}), but the program's Engine is built for {}; change "
                    "the file, or choose the types with zeroth::with_precision",
                    what, name_of(file), key, name_of(program))};
  };
  if (config.compute_dtype() != compute) {
    refuse("compute", config.compute_dtype(), compute, "fp16.enabled, bf16.enabled");
  }
  if (config.gradient_dtype() != gradient) {
    refuse("gradient", config.gradient_dtype(), gradient, "zeroth.gradient_dtype");
  }
}

}  // namespace

EngineState::EngineState(Job& job, Model const& model, Config const& config, Dtype compute, Dtype gradient)
    : job_{&JobState::of(job)},
      model_{std::make_shared<model::Description const>(model.description())},
      blueprint_{(check_types(config, compute, gradient),
                  engine::make_blueprint(model, config, job.world(), job_->communicator->transport()))},
      device_{job_->make_device()},
      gather_comm_{split_off(*job_, blueprint_.settings, true)},
      reduce_comm_{blueprint_.settings.single_communicator ? gather_comm_
                                                           : split_off(*job_, blueprint_.settings, false)},
      exceptions_at_start_{std::uncaught_exceptions()},
      progress_(model_->units.size()) {
  try {
    set_up(job, config);
  } catch (SystemError const&) {  // of this machine: the others cannot know
    tell_others(std::current_exception());
    end_streams();
    throw;
  } catch (...) {
    end_streams();
    throw;
  }
}

void EngineState::set_up(Job const& job, Config const& config) {
  auto const& settings = blueprint_.settings;
  if (!settings.flight_recorder.empty()) {
    job_->set_flight_folder(settings.flight_recorder);
  }
  if (job_->compute_stream) {
    device_->compute_on(*job_->compute_stream);
  }
  for (auto* const comm : {gather_comm_.get(), reduce_comm_.get()}) {
    comm->set_options({.timeout = settings.timeout, .check = true});  // the first two steps are always checked
  }
  auto const overlap = settings.overlap_comm ? device::Overlap::on : device::Overlap::off;
  gather_stream_ = device_->make_stream("gather", overlap);
  reduce_stream_ = device_->make_stream("reduce", overlap);
  agree(config);
  shard::ManagerContext const context{device_.get(),      gather_stream_.get(), reduce_stream_.get(),
                                      gather_comm_.get(), reduce_comm_.get(),   model_.get(),
                                      &blueprint_.layout, settings.poison};
  manager_ = std::make_unique<shard::ShardManager>(context, blueprint_.request,
                                                   optim::initial_state(settings.rules.loss_scale));
  schedule_ = std::make_unique<stage::Schedule>(blueprint_.layout, settings, blueprint_.limits, *manager_);
  gradient_prescale_ = prescale_for(settings.precision.reduce, job.world());
  if (device_->holds_values()) {
    manager_->initialise();
    compare_replicas(shard::Moments::without, "initialisation");
    if (job.rank() == 0) {
      tell_user();
    }
  }
  step_began_ = device_->now();
}

void EngineState::tell_user() const {
  if (auto const note = engine::stage_note(settings()); !note.empty()) {
    logger().info("{}{}", rank_prefix(), note);
  }
  for (auto const& warning : {engine::prefetch_warning(blueprint_), engine::sum_warning(settings())}) {
    if (!warning.empty()) {
      logger().warn("{}{}", rank_prefix(), warning);
    }
  }
}

EngineState::~EngineState() {
  if (pass_) {  // which will use this engine when it ends
    auto const why =
        fmt::format("{}the engine ended while {}: it must outlive its passes and guards", rank_prefix(), state());
    comm::print_error(why);
    gather_comm_->abort(why);
    std::abort();
  }
  if (failure_ || (std::uncaught_exceptions() > exceptions_at_start_ && !finished_)) {
    tell_others(failure_);
  }
  end_streams();
}

/// The streams may hold collectives that other ranks will never join: to be called before the streams are joined.
void EngineState::tell_others(std::exception_ptr const& error) noexcept {
  gather_comm_->abort(fmt::format("the engine of rank {} ended by an error{}", gather_comm_->rank(), cause_of(error)));
}

void EngineState::end_streams() noexcept {
  gather_stream_.reset();
  reduce_stream_.reset();
  try {
    device_->compute().synchronize();  // the caller's kernels may still use what ends now
  } catch (...) {                      // of a device that failed: nothing runs on it any more
  }
}

void EngineState::agree(Config const& config) {
  auto const world = static_cast<std::size_t>(gather_comm_->world());
  auto const rank = static_cast<std::size_t>(gather_comm_->rank());
  auto const memory = device_->allocate_host(static_cast<std::int64_t>(2 * world * sizeof(std::uint64_t)));
  std::span const all{reinterpret_cast<std::uint64_t*>(memory->data()), 2 * world};
  all[2 * rank] = model::fingerprint(*model_);
  all[2 * rank + 1] = Fnv1a{}.characters(config.to_json()).value();
  gather_comm_->all_gather(*gather_stream_, {"start", ""}, &all[2 * rank], all.data(), 2, Dtype::int64);
  gather_stream_->synchronize();
  for (std::size_t other = 0; other < world; ++other) {
    for (std::size_t field = 0; field < 2; ++field) {
      if (all[2 * other + field] != all[field]) {
        throw PeerError{fmt::format(
            "ranks 0 and {} built an engine from different {}: all ranks must give the same", other,
            field == 0 ? "models (units, parameters, shapes, options, initial values or seed)" : "stage files")};
      }
    }
  }
}

engine::Exchange EngineState::exchange() const noexcept {
  return {gather_comm_.get(), device_.get(), gather_stream_.get()};
}

/// When nothing else is enqueued: waits.
void EngineState::compare_replicas(shard::Moments moments, std::string const& after) {
  if (device_->holds_values()) {
    manager_->await_gathers();
    engine::compare_replicas(*manager_, blueprint_.layout, moments, after, exchange());
  }
}

// ---- contract -------------------------------------------------------------------------------------------------------

std::string const& EngineState::unit_name(std::uint32_t unit) const noexcept { return model_->units[unit].name; }

/// What the engine is doing, for messages.
std::string EngineState::state() const {
  if (guard_) {
    return fmt::format("the {} guard of unit \"{}\" is open", stage::purpose_of(guard_->turn),
                       unit_name(guard_->turn.unit));
  }
  if (pass_) {
    return *pass_ == PassKind::training
               ? fmt::format("micro-step {} of {} is open", micro_steps_ + 1, settings().batch.accumulation)
               : fmt::format("evaluation pass {} of {} is open", evaluation_->done + 1, evaluation_->passes);
  }
  return fmt::format("{} of {} micro-steps of step {} are done", micro_steps_, settings().batch.accumulation,
                     steps_ + 1);
}

void EngineState::check_thread(char const* call) const {
  ZEROTH_EXPECTS(
      !settings().check || std::this_thread::get_id() == thread_,
      fmt::format("{} on another thread than the one that built the engine, to which all of its calls, passes "
                  "and guards belong",
                  call));
}

void EngineState::check_usable(char const* call) {
  check_thread(call);
  if (failure_) {
    try {
      std::rethrow_exception(failure_);
    } catch (PeerError const&) {
      throw;
    } catch (std::exception const& error) {
      throw ContractError{fmt::format("{}: the engine failed before: {}", call, error.what())};
    }
  }
}

void EngineState::remember_failure(std::exception_ptr error) noexcept {
  if (!failure_) {
    failure_ = std::move(error);
  }
  schedule_->abandon();
}

void EngineState::check_between_passes(char const* call) {
  check_usable(call);
  ZEROTH_EXPECTS(!pass_, fmt::format("{} while {}: it belongs between passes", call, state()));
}

void EngineState::check_unit(Unit unit, std::string_view call) const {
  ZEROTH_EXPECTS(unit.model() == model_->id, fmt::format("{}: the unit belongs to another model", call));
  ZEROTH_EXPECTS(unit.index() < model_->units.size(),
                 fmt::format("{}: the unit was added to the model after this engine was built", call));
}

void EngineState::check_param(std::uint32_t model, std::uint32_t param, char const* call) const {
  ZEROTH_EXPECTS(model == model_->id, fmt::format("{}: the parameter belongs to another model", call));
  ZEROTH_EXPECTS(param < model_->params.size(),
                 fmt::format("{}: the parameter was added to the model after this engine was built", call));
  auto const unit = guard_->turn.unit;
  auto const& described = model_->params[param];
  bool const tied = std::ranges::find(described.ties, unit) != described.ties.end();
  ZEROTH_EXPECTS(described.owner == unit || tied,
                 fmt::format("{}: unit \"{}\" neither holds nor ties parameter \"{}\", which is of unit \"{}\"", call,
                             unit_name(unit), described.name, unit_name(described.owner)));
}

void EngineState::check_open(Phase phase, Unit unit) const {
  auto const call = stage::name_of(phase);
  check_unit(unit, call);
  auto const& name = unit_name(unit.index());
  ZEROTH_EXPECTS(pass_, fmt::format("{} of unit \"{}\" outside of a pass", call, name));
  ZEROTH_EXPECTS(!guard_, fmt::format("{} of unit \"{}\" while {}", call, name, state()));
  auto const& progress = progress_[unit.index()];
  ZEROTH_EXPECTS(!progress.skipped && !pass_skipped_,
                 fmt::format("{} of unit \"{}\", which this micro-step skips", call, name));
  auto const uses = model_->units[unit.index()].uses_per_micro_step;
  ZEROTH_EXPECTS(phase == Phase::forward || progress.backwards < uses,
                 fmt::format("backward of unit \"{}\" for the {}. time in a micro-step: its uses_per_micro_step is {}",
                             name, progress.backwards + 1, uses));
}

// ---- guards ---------------------------------------------------------------------------------------------------------

void EngineState::record_turn(Turn const& turn) {
  auto const verb = turn.pass == PassKind::evaluation ? Verb::evaluation
                                                      : (turn.phase == Phase::forward ? Verb::forward : Verb::backward);
  history().add(verb, turn.unit);
  auto& progress = progress_[turn.unit];
  ++(turn.phase == Phase::forward ? progress.forwards : progress.backwards);
}

/// A skipped unit's turn: joins what the other ranks do in it.
void EngineState::take_turn(Turn const& turn) {
  record_turn(turn);
  schedule_->open(turn);
  schedule_->close(turn);
}

/// Takes the turns of skipped units that come before `position` in declared order.
void EngineState::settle_skips(std::int64_t position) {
  auto const units = static_cast<std::int64_t>(model_->units.size());
  for (auto at = position_ + 1; at < position; ++at) {
    bool const forward = at < units;
    auto const unit = static_cast<std::uint32_t>(forward ? at : 2 * units - 1 - at);
    auto const& progress = progress_[unit];
    if (progress.skipped && (forward ? progress.forwards : progress.backwards) == 0) {
      auto const uses = model_->units[unit].uses_per_micro_step;
      for (int use = 0; use < uses; ++use) {
        take_turn({PassKind::training, forward ? Phase::forward : Phase::backward, unit});
      }
    }
  }
  position_ = std::max(position_, position);
}

std::uint64_t EngineState::open(Phase phase, Unit unit) {
  check_usable(phase == Phase::forward ? "forward" : "backward");
  check_open(phase, unit);
  Turn const turn{*pass_, phase, unit.index()};
  try {
    if (*pass_ == PassKind::training) {
      auto const units = static_cast<std::int64_t>(model_->units.size());
      settle_skips(phase == Phase::forward ? std::int64_t{unit.index()} : 2 * units - 1 - std::int64_t{unit.index()});
    }
    record_turn(turn);
    schedule_->open(turn);
  } catch (...) {
    remember_failure(std::current_exception());
    throw;
  }
  guard_ = OpenGuard{++guards_, turn};
  device_->compute().begin_span(stage::purpose_of(turn), unit_name(unit.index()));
  return guards_;
}

void EngineState::close(std::uint64_t guard, bool by_exception) noexcept {
  if (!guard_ || guard_->id != guard) {
    return;
  }
  auto const turn = guard_->turn;
  guard_.reset();
  try {
    check_thread("the end of a guard");
    device_->compute().end_span();
    ZEROTH_EXPECTS(!by_exception,
                   fmt::format("the {} guard of unit \"{}\" ended by an exception: nothing of it was sent",
                               stage::purpose_of(turn), unit_name(turn.unit)));
    if (!failure_) {
      schedule_->close(turn);
    }
  } catch (...) {
    remember_failure(std::current_exception());
  }
}

void const* EngineState::parameter_address(std::uint64_t guard, std::uint32_t model, std::uint32_t param) {
  check_thread("operator[]");
  ZEROTH_EXPECTS(guard_ && guard_->id == guard, "a parameter is asked of a guard that has ended");
  check_param(model, param, "operator[]");
  return manager_->parameter(param);
}

Contribution EngineState::contribute(std::uint64_t guard, std::uint32_t model, std::uint32_t param) {
  check_thread("grad");
  ZEROTH_EXPECTS(guard_ && guard_->id == guard, "a gradient is asked of a guard that has ended");
  check_param(model, param, "grad");
  auto const& described = model_->params[param];
  ZEROTH_EXPECTS(described.options.trainable, fmt::format("grad of \"{}\", which is frozen", described.name));
  ZEROTH_EXPECTS(loss_reported_,
                 fmt::format("grad of \"{}\" before report_loss(): gradients must carry the seed that it returns",
                             described.name));
  auto const [data, beta] = manager_->contribute(param);
  return {data, beta};
}

void EngineState::fill_zero(void* data, std::int64_t bytes) {
  device_->kernels().fill(device_->compute(), data, bytes, 0);
}

}  // namespace zeroth::detail
