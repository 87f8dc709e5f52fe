// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/guards.hpp"

#include <fmt/format.h>
#include <exception>
#include <utility>

#include "engine/engine_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace detail {
namespace {

/// The dtypes of a parameter of this stage.
PrecisionSettings precision_of(EngineState const& state, ParamId param) noexcept {
  auto const& memory = state.sharded.manager->memory;
  return memory.precision(memory.layout().location(param).flat);
}

std::string_view cpp_type(Dtype dtype) noexcept {
  return dtype == Dtype::fp32 ? "float" : dtype == Dtype::bf16 ? "zeroth::bf16" : "zeroth::fp16";
}

void expect_parameter(std::string const& name, Dtype has, std::optional<Dtype> expected) {
  ZEROTH_EXPECTS(!expected || *expected == has,
                 fmt::format("parameter \"{}\" is {}, and a guard was asked for {}; allowed: as<{}>() of the guard",
                             name, name_of(has), name_of(*expected), cpp_type(has)));
}

void expect_gradient(std::string const& name, Dtype has, std::optional<Dtype> expected) {
  ZEROTH_EXPECTS(!expected || *expected == has,
                 fmt::format("the gradient of parameter \"{}\" is {}, and a guard was asked for {}; allowed: "
                             "grad_as<{}>() of the guard",
                             name, name_of(has), name_of(*expected), cpp_type(has)));
}

}  // namespace

void Contribution::clear(std::int64_t bytes) const {
  engine::CallGuard const call_guard{engine->session.thread_check, "accumulator()"};
  engine->runtime.device->kernels().fill(engine->runtime.device->compute(), data, bytes, 0);
}

Guard::Guard(EngineState& engine, std::uint64_t id) noexcept
    : engine_{&engine}, id_{id}, opened_by_{std::this_thread::get_id()}, exceptions_{std::uncaught_exceptions()} {}

Guard::Guard(Guard&& other) noexcept
    : engine_{std::exchange(other.engine_, nullptr)},
      id_{other.id_},
      opened_by_{other.opened_by_},
      exceptions_{other.exceptions_} {}

Guard::~Guard() {
  if (engine_ == nullptr) {
    return;
  }
  engine::CallGuard const call_guard{engine_->session.thread_check};
  auto const turn = engine_->session.protocol->closed(id_);
  if (!turn) {
    return;
  }
  try {
    engine_->runtime.device->compute().end_span();
    call_guard.expect_alone("the end of a guard");
    ZEROTH_EXPECTS(!engine::in_unwinding(opened_by_, exceptions_),
                   fmt::format("the {} guard of unit \"{}\" ended by an exception: nothing of it was sent",
                               stage::purpose_of(*turn), engine_->sharded.model->units[turn->unit].name));
    if (!engine_->session.protocol->failure()) {
      auto const& order = engine_->sharded.schedule->order();
      if (order.opens_early(*turn) && turn->last) {  // all turns before its place are over, skipped or not
        engine_->settle_skips(order.position(*turn));
      }
      engine_->sharded.schedule->close(*turn);
    }
  } catch (...) {
    engine_->fail(std::current_exception());
  }
}

EngineState& Guard::engine() const {
  ZEROTH_EXPECTS(engine_ != nullptr, "a guard was used after it was moved from");
  return *engine_;
}

AnyView Guard::parameter(ModelId model, ParamId of_model, std::optional<Dtype> expected) const {
  auto& state = engine();
  engine::CallGuard const call_guard{state.session.thread_check, "operator[]"};
  auto const param = state.runtime.share.local(model, of_model, "operator[]");
  state.session.protocol->check_parameter(id_, model, param);
  auto const& described = state.sharded.model->params[param];
  auto const dtype = precision_of(state, param).compute;
  expect_parameter(described.name, dtype, expected);
  return {state.sharded.manager->parameters.address(param), dtype, described.shape, described.count};
}

Contribution Guard::contribute(ModelId model, ParamId of_model, std::optional<Dtype> expected) const {
  auto& state = engine();
  engine::CallGuard const call_guard{state.session.thread_check, "grad"};
  auto const param = state.runtime.share.local(model, of_model, "grad");
  auto const unit = state.session.protocol->check_gradient(id_, model, param);
  expect_gradient(state.sharded.model->params[param].name, precision_of(state, param).gradient, expected);
  auto const [data, beta] = state.sharded.manager->gradients.contribute(unit, param);
  return {&state, data, beta};
}

AnyView Guard::gradient_shape(ParamId of_model) const {
  auto const& state = *engine_;
  auto const param = state.runtime.share.local(state.sharded.model->id, of_model, "grad");
  auto const& described = state.sharded.model->params[param];
  return {nullptr, precision_of(state, param).gradient, described.shape, described.count};
}

}  // namespace detail

AnyGradient AnyBackward::grad(AnyParam const& param) const& {
  auto const memory = guard_.contribute(param.model_, param.id_);
  return {memory, guard_.gradient_shape(param.id_)};
}

AnyGradient AnyWeights::grad(AnyParam const& param) const& {
  auto const memory = guard_.contribute(param.model_, param.id_);
  return {memory, guard_.gradient_shape(param.id_)};
}

}  // namespace zeroth
