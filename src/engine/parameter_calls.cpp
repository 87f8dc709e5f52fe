// SPDX-License-Identifier: Apache-2.0
/// AnyEngine's calls about single parameters: their values, gradients and rates.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/hash.hpp"
#include "engine/engine_state.hpp"
#include "engine/gradient_edits.hpp"
#include "engine/parameter_values.hpp"
#include "engine/server.hpp"
#include "engine/server_calls.hpp"
#include "engine/tensor_ranks.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth {

using detail::EngineState;
using engine::CallGuard;
using engine::Verb;

namespace {

/// The id of `param` in this rank's stage; nullopt if only other stages have it.
std::optional<ParamId> param_of_stage(EngineState const& engine, ModelId model, ParamId param, char const* call) {
  auto const& share = engine.runtime.share;
  bool const elsewhere = share.knows(model, param) && !share.params()[param].local;
  auto const local = elsewhere ? std::nullopt : std::optional{share.local(model, param, call)};
  if (local) {
    engine.session.protocol->check_param(model, *local, call);
  }
  return local;
}

/// Like the overload above. Also throws ContractError unless `param` has `count` elements.
std::optional<ParamId> param_of_stage(EngineState const& engine, ModelId model, ParamId param, std::int64_t count,
                                      char const* call) {
  auto const local = param_of_stage(engine, model, param, call);
  auto const& share = engine.runtime.share;
  ZEROTH_EXPECTS(count == share.count(param), fmt::format("{} of parameter \"{}\" got {} values, but it has {}", call,
                                                          share.name(param), count, share.count(param)));
  return local;
}

/// The sums that step() will use for its decision.
optim::StepSums sum_step(EngineState& engine) {
  auto& accumulator = *engine.session.accumulator;
  auto const& call_log = engine.noted_call_log();
  engine::order_norm(engine);
  auto const total = engine.sharded.manager->optimizer.sum_step(accumulator.sums(false, 0), accumulator.losses());
  engine.check_call_logs(total, call_log, engine.session.protocol->steps() + 1, engine.runtime.deciders());
  return total;
}

/// The factor from a reduced gradient to the gradient of the mean loss; 0 if there is no loss.
double scale_of_gradients(EngineState& engine, optim::StepSums const& total) {
  auto const rules = engine::rules_for(engine, {});
  auto const weight = total.weight.value();
  auto const scale = rules.loss_scale_used > 0 ? rules.loss_scale_used : engine.sharded.manager->optimizer.loss_scale();
  return weight > 0 ? 1 / (weight * static_cast<double>(scale) * static_cast<double>(rules.gradient_prescale)) : 0;
}

float norm_of(EngineState& engine, optim::StepSums const& total) {
  optim::StepScalars scalars;
  scalars.loss_scale.scale = engine.sharded.manager->optimizer.loss_scale();
  optim::advance(engine::rules_for(engine, {}), total, scalars);
  return scalars.gradient_norm;
}

}  // namespace

void AnyEngine::read(AnyParam const& param, std::span<float> values) {
  auto& engine = state_->of_worker("read()");
  CallGuard const call_guard{engine.session.thread_check, "read()"};
  engine.session.protocol->check_between_passes("read()");
  auto const id = param_of_stage(engine, param.model_, param.id_, std::ssize(values), "read()");
  if (id) {
    engine.session.accumulator->call_log().add(Verb::read, index_of(*id));
  }
  engine.or_end([&] {
    engine.meet("read");
    if (id) {
      engine::order_read(engine, *id);
      engine::read_values(*engine.sharded.manager, *id, values, engine.runtime);
    }
    if (engine.runtime.has_pipeline()) {
      engine::tell(values, engine.runtime.first_in_line(engine.runtime.share.params()[param.id_].stage()),
                   engine.runtime.line());
    }
  });
}

void AnyEngine::write(AnyParam const& param, std::span<float const> values) {
  auto& engine = state_->of_worker("write()");
  CallGuard const call_guard{engine.session.thread_check, "write()"};
  engine.session.protocol->check_between_passes("write()");
  engine.session.protocol->check_not_swapped("write()");
  auto const id = param_of_stage(engine, param.model_, param.id_, std::ssize(values), "write()");
  if (!id) {
    return;  // the parameter is another stage's
  }
  engine.session.accumulator->call_log().add(Verb::write, index_of(*id));
  engine.or_end([&] {
    engine.meet("write");
    engine.settle_update();
    engine.session.await_saved();
    auto const& runtime = engine.runtime;
    engine::write_values(*engine.sharded.manager, *id, values, runtime,
                         runtime.ties.over(runtime.share.params()[param.id_].stages()));
    engine::order_write(engine, *id, values);
    engine.compare_replicas(shard::States::without, "write()");
  });
}

void AnyEngine::swap_ema() {
  auto& engine = state_->of_worker("swap_ema()");
  CallGuard const call_guard{engine.session.thread_check, "swap_ema()"};
  engine.session.protocol->check_between_steps("swap_ema()");
  ZEROTH_EXPECTS(engine.settings().update.ema_decay >= 0,
                 "swap_ema(): the engine keeps no averages; set zeroth.ema.decay in the stage file");
  engine.session.accumulator->call_log().add(Verb::swap_ema);
  engine.or_end([&] {
    engine.meet("swap_ema");
    engine.settle_update();
    engine.session.await_saved();
    engine.runtime.servers ? engine::swap_ema_on_servers(engine) : engine::exchange_averages(*engine.sharded.manager);
    engine.session.protocol->swap_ema();
    engine.compare_replicas(shard::States::with, "swap_ema()");
    engine.compare_ties(shard::States::with, "swap_ema()");
  });
}

float AnyEngine::gradient_norm() {
  auto& engine = state_->of_worker("gradient_norm()");
  CallGuard const call_guard{engine.session.thread_check, "gradient_norm()"};
  engine.session.protocol->check_reduced("gradient_norm()");
  engine.session.accumulator->call_log().add(Verb::gradient_norm);
  return engine.or_end([&] { return norm_of(engine, sum_step(engine)); });
}

float AnyEngine::gradient_norm(AnyParam const& param) {
  auto& engine = state_->of_worker("gradient_norm(param)");
  CallGuard const call_guard{engine.session.thread_check, "gradient_norm(param)"};
  engine.session.protocol->check_reduced("gradient_norm(param)");
  ZEROTH_EXPECTS(!engine.runtime.servers || !engine.runtime.servers->is_stale(),
                 "gradient_norm(param) with zeroth.parameter_server.staleness: no rank has all workers' gradients; "
                 "gradient_norm() is that of this worker's");
  auto const id = param_of_stage(engine, param.model_, param.id_, "gradient_norm(param)");
  auto const& known = engine.runtime.share.params()[param.id_];
  ZEROTH_EXPECTS(known.trainable,
                 fmt::format("gradient_norm(param): parameter \"{}\" is frozen and has no gradient", known.name));
  if (id) {
    engine.session.accumulator->call_log().add(Verb::gradient_norm_of, index_of(*id));
  }
  return engine.or_end([&] {
    auto total = sum_step(engine);
    engine::order_norm_of(engine, param.id_);
    bool const counts = !engine.runtime.servers && known.stage() == engine.runtime.share.stage() &&
                        (engine.runtime.counts() || engine.sharded.model->params[*id].part);
    auto const mine =
        counts ? engine::squares_of_slice(*engine.sharded.manager, *id, engine.runtime.exchange()) : optim::ExactSum{};
    total.sum_of_squares = engine::sum_over_ranks(mine, engine.runtime.share, param.id_, engine.runtime.everyone());
    return norm_of(engine, total);
  });
}

void AnyEngine::edit_gradients(std::function<void(ReducedGradient const&)> const& edit) {
  constexpr auto const* call = "edit_gradients()";
  auto& engine = state_->of_worker(call);
  CallGuard const call_guard{engine.session.thread_check, call};
  engine.session.protocol->check_reduced(call);
  ZEROTH_EXPECTS(edit, "edit_gradients(): the function is empty");
  ZEROTH_EXPECTS(!engine.runtime.servers,
                 "edit_gradients() with zeroth.parameter_server: the gradients are on the servers, where the program "
                 "does not run; set zeroth.parameter_server.servers to 0");
  ZEROTH_EXPECTS(
      !shard::encodes_momenta(engine.settings()),
      "edit_gradients() with optimizer.type OneBitAdam, whose ranks keep gradients of their own; take another "
      "optimizer");
  engine.session.accumulator->call_log().add(Verb::edit_gradients);
  engine.or_end([&] {
    if (auto const scale = scale_of_gradients(engine, sum_step(engine)); scale > 0) {
      engine::edit_gradients(*engine.sharded.manager, scale, edit);
    }
  });
}

void AnyEngine::set_learning_rate_factors(
    std::function<std::optional<float>(std::string const& name)> const& factor_of) {
  constexpr auto const* call = "set_learning_rate_factors()";
  auto& engine = state_->of_worker(call);
  CallGuard const call_guard{engine.session.thread_check, call};
  engine.session.protocol->check_between_steps(call);
  ZEROTH_EXPECTS(factor_of, "set_learning_rate_factors(): the function is empty");
  ZEROTH_EXPECTS(
      !engine.runtime.servers,
      "set_learning_rate_factors() with zeroth.parameter_server: servers update, and have the factors of the "
      "model; set zeroth.parameter_server.servers to 0, or ParamOptions::learning_rate_factor");
  auto changes = engine.session.rate_factors;  // of this stage
  Fnv1a32 hash;
  for (auto const& param : engine.runtime.share.params()) {
    auto const factor = param.trainable ? factor_of(param.name) : std::nullopt;
    ZEROTH_EXPECTS(!factor || (std::isfinite(*factor) && *factor >= 0),
                   fmt::format("set_learning_rate_factors(): {} for parameter \"{}\", must be 0 or more and finite",
                               *factor, param.name));
    hash.add(factor.value_or(-1));
    if (factor && param.local) {
      changes.emplace_back(*param.local, *factor);
    }
  }
  engine.session.accumulator->call_log().add(Verb::learning_rate_factors, hash.value());
  engine.session.rate_factors = std::move(changes);
}

}  // namespace zeroth
