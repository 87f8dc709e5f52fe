// SPDX-License-Identifier: Apache-2.0
/// The engine's units as the math wants them: in fp32. Maps of the engine's own memory where that is fp32; where it is
/// bf16 or fp16, parameters are widened when first read and gradients rounded once, when they are complete.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <zeroth/core/dtype.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/engine/engine.hpp>
#include <zeroth/model/description.hpp>

#include "parameters.hpp"

namespace gpt {

/// Floats for one open unit of a model in 16 bits, used again by the next. Takes no memory until it is needed.
class WideMemory {
 public:
  /// For one unit of `model` at a time: its parameters and as many gradients.
  explicit WideMemory(zeroth::Model const& model) {
    auto const& description = model.description();
    for (auto const& unit : description.units) {
      std::int64_t count = 0;
      for (auto const* params : {&unit.params, &unit.ties}) {
        for (auto const param : *params) {
          count += aligned(description.params[param].count);
        }
      }
      capacity_ = std::max(capacity_, 2 * count);
    }
  }

  /// All that was handed out is free again.
  void clear() noexcept {
    used_ = 0;
    widened_.clear();
  }
  [[nodiscard]] float* take(std::int64_t count) {
    memory_.resize(capacity_);  // once
    ZEROTH_EXPECTS(used_ + count <= capacity_, "a unit asks for more than its parameters and their gradients");
    float* const data = memory_.data() + used_;
    used_ += aligned(count);
    return data;
  }
  template <zeroth::Element T>
  [[nodiscard]] float const* widen(T const* data, std::int64_t count) {
    auto const found = std::ranges::find(widened_, static_cast<void const*>(data), &Widened::from);
    if (found != widened_.end()) {
      return found->to;
    }
    float* const wide = take(count);
    for (std::int64_t i = 0; i < count; ++i) {
      wide[i] = zeroth::to_float(data[i]);
    }
    widened_.push_back({data, wide});
    return wide;
  }

 private:
  struct Widened {
    void const* from;
    float const* to;
  };
  /// To 64 bytes: Eigen's order of summation depends on the alignment.
  [[nodiscard]] static std::int64_t aligned(std::int64_t count) { return (count + 15) / 16 * 16; }

  std::int64_t capacity_ = 0, used_ = 0;
  RowVector<float> memory_;
  std::vector<Widened> widened_;
};

namespace detail {

template <zeroth::Element T, std::size_t D>
[[nodiscard]] ConstTensor<float, D> wide(zeroth::View<T const, D> view, WideMemory& memory) {
  if constexpr (std::same_as<T, float>) {
    return zeroth::as_eigen(view);
  } else {
    return const_tensor<float, D>(memory.widen(view.data(), view.count()), view.shape());
  }
}

template <zeroth::Element G>
void add_rounded(void* target, float const* values, std::int64_t count, float beta) noexcept {
  auto* const sums = static_cast<G*>(target);
  if (beta == 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = zeroth::from_float<G>(values[i]);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = zeroth::from_float<G>(zeroth::to_float(sums[i]) + values[i]);
    }
  }
}

template <zeroth::Element G, std::size_t D>
[[nodiscard]] Contribution<float, D> contribution(zeroth::Gradient<G, D> gradient, WideMemory& memory) {
  if constexpr (std::same_as<G, float>) {
    return {gradient.data(), gradient.shape(), gradient.beta()};
  } else {
    auto const count = zeroth::View<G, D>{gradient.data(), gradient.shape()}.count();
    return {memory.take(count), gradient.shape(), 0, {&add_rounded<G>, gradient.data(), gradient.beta()}};
  }
}

}  // namespace detail

/// A unit that is open for forward.
template <zeroth::Element T>
class ForwardParameters final : public Parameters<float> {
 public:
  ForwardParameters(zeroth::Pass<T>& pass, zeroth::Unit unit, WideMemory& memory)
      : guard_{pass.forward(unit)}, memory_{&memory} {
    memory.clear();
  }
  ConstTensor<float, 1> operator[](Param<1> const& param) const override {
    return detail::wide(guard_[param], *memory_);
  }
  ConstTensor<float, 2> operator[](Param<2> const& param) const override {
    return detail::wide(guard_[param], *memory_);
  }

 private:
  zeroth::Forward<T> guard_;
  WideMemory* memory_;
};

/// A unit that is open for backward.
template <zeroth::Element T, zeroth::GradientOf<T> G>
class BackwardGradients final : public Gradients<float> {
 public:
  BackwardGradients(zeroth::MicroStep<T, G>& micro, zeroth::Unit unit, WideMemory& memory)
      : guard_{micro.backward(unit)}, memory_{&memory} {
    memory.clear();
  }
  ConstTensor<float, 1> operator[](Param<1> const& param) const override {
    return detail::wide(guard_[param], *memory_);
  }
  ConstTensor<float, 2> operator[](Param<2> const& param) const override {
    return detail::wide(guard_[param], *memory_);
  }
  Contribution<float, 1> grad(Param<1> const& param) const override {
    return detail::contribution(guard_.grad(param), *memory_);
  }
  Contribution<float, 2> grad(Param<2> const& param) const override {
    return detail::contribution(guard_.grad(param), *memory_);
  }

 private:
  zeroth::Backward<T, G> guard_;
  WideMemory* memory_;
};

/// A micro-step that opens units in fp32: the Pass of Gpt<float>.
template <zeroth::Element T, zeroth::GradientOf<T> G>
class WideMicroStep {
 public:
  WideMicroStep(zeroth::MicroStep<T, G>& micro, WideMemory& memory) : micro_{micro}, memory_{memory} {}
  [[nodiscard]] ForwardParameters<T> forward(zeroth::Unit unit) { return {micro_, unit, memory_}; }
  [[nodiscard]] BackwardGradients<T, G> backward(zeroth::Unit unit) { return {micro_, unit, memory_}; }

 private:
  zeroth::MicroStep<T, G>& micro_;
  WideMemory& memory_;
};

}  // namespace gpt
