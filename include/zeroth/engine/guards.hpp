// SPDX-License-Identifier: Apache-2.0
/// Guards: an open unit's parameters and, in backward, its gradients.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "zeroth/core/export.hpp"
#include "zeroth/core/view.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth {

/// A parameter whose dtype and shape are known at run time, row-major on the engine's device. Owns nothing; valid as
/// long as the guard that returned it exists.
struct AnyView {
  void const* data = nullptr;           ///< The first element.
  Dtype dtype = Dtype::fp32;            ///< The engine's compute_dtype(), or fp32: see ParamOptions::compute.
  std::span<std::int64_t const> shape;  ///< Outermost dimension first; valid as long as the engine exists.
  std::int64_t count = 0;               ///< Elements.
};

namespace detail {
class EngineState;

/// The destination of a contribution to a gradient.
struct Contribution {
  EngineState* engine;
  void* data;
  float beta;
  ZEROTH_EXPORT void clear(std::int64_t bytes) const;  ///< Fills with zeros, on the compute stream.
};

/// The opening of a unit. Every guard contains one, and its destructor closes the unit.
class ZEROTH_EXPORT Guard {
 public:
  Guard(EngineState& engine, std::uint64_t id) noexcept;
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&&) = delete;  // would acquire the next unit before it releases this one
  ~Guard();
  /// Throws ContractError if the parameter has another dtype than `expected`.
  [[nodiscard]] AnyView parameter(ModelId model, ParamId param, std::optional<Dtype> expected = {}) const;
  [[nodiscard]] Contribution contribute(ModelId model, ParamId param, std::optional<Dtype> expected = {}) const;
  /// The parameter's shape with the gradient's dtype, and a null address.
  [[nodiscard]] AnyView gradient_shape(ParamId param) const;

 private:
  [[nodiscard]] EngineState& engine() const;
  EngineState* engine_;  // null when moved from
  std::uint64_t id_;
  std::thread::id opened_by_;
  int exceptions_;  // in flight on that thread
};
}  // namespace detail

/// The base class of guards: one unit's readable parameters, of any dtype. Do not read through a view after its guard
/// is destroyed: the memory may be stale or another unit's (NaN under `zeroth.poison`).
class AnyParams {
 public:
  AnyParams(AnyParams const&) = delete;
  AnyParams& operator=(AnyParams const&) = delete;
  /// Throws ContractError if the unit neither owns nor ties `param`.
  [[nodiscard]] AnyView operator[](AnyParam const& param) const& { return guard_.parameter(param.model_, param.id_); }
  void operator[](AnyParam const&) const&& = delete;  // name the guard: it must outlive the view

 protected:
  /// Takes the unit that `guard` opened.
  explicit AnyParams(detail::Guard guard) noexcept : guard_{std::move(guard)} {}
  AnyParams(AnyParams&&) noexcept = default;
  ~AnyParams() = default;
  detail::Guard guard_;  ///< Closes the unit when it is destroyed.
};

/// One unit's readable parameters: the argument of forward, evaluation and recomputation code, as `Params<T> const&`.
template <Element T>
class Params : public AnyParams {
 public:
  using AnyParams::operator[];
  /// Throws ContractError if the unit neither owns nor ties `param`, or if it is fp32 in a model of 16 bits.
  template <std::size_t D>
  [[nodiscard]] View<T const, D> operator[](Param<D> const& param) const& {
    return as<T>(param);
  }
  template <std::size_t D>
  void operator[](Param<D> const&) const&& = delete;  // as in AnyParams
  /// The elements of a parameter of type E: `as<float>(param)` for one with ParamOptions::compute fp32. Throws
  /// ContractError if it has another type, or if the unit neither owns nor ties it.
  template <Element E, std::size_t D>
  [[nodiscard]] View<E const, D> as(Param<D> const& param) const& {
    return {static_cast<E const*>(guard_.parameter(param.model_, param.id_, dtype_of<E>).data), param.shape_};
  }
  template <Element E, std::size_t D>
  void as(Param<D> const&) const&& = delete;  // as in AnyParams

 protected:
  using AnyParams::AnyParams;  ///< The constructors of AnyParams.
  Params(Params&&) noexcept = default;
  ~Params() = default;
};

/// A guard that keeps one unit's parameters readable on the compute stream until it is destroyed.
class [[nodiscard]] AnyForward final : public AnyParams {
 public:
  AnyForward(AnyForward&&) noexcept = default;

 private:
  friend class AnyPass;
  friend class AnyWork;
  using AnyParams::AnyParams;
};
/// Like AnyForward, for parameters of type T.
template <Element T>
class [[nodiscard]] Forward final : public Params<T> {
 public:
  Forward(Forward&&) noexcept = default;

 private:
  template <Element OfT>
  friend class Pass;
  template <Element OfT, GradientOf<OfT> OfG>
  friend class Work;
  using Params<T>::Params;
};

/// One contribution to a gradient: write every element once, as `beta() * old + new`. At beta 0 the old value is
/// undefined (NaN under `zeroth.poison`). Requesting it obliges you to write it, so it is move-only.
class [[nodiscard]] AnyGradient {
 public:
  AnyGradient(AnyGradient&&) noexcept = default;
  /// The memory to write, row-major on the engine's device, in the order of the compute stream, until the guard is
  /// destroyed.
  [[nodiscard]] void* data() const noexcept { return memory_.data; }
  /// The engine's gradient_dtype(), or fp32: see ParamOptions::compute.
  [[nodiscard]] Dtype dtype() const noexcept { return shape_.dtype; }
  /// The parameter's shape, outermost dimension first; valid as long as the engine exists.
  [[nodiscard]] std::span<std::int64_t const> shape() const noexcept { return shape_.shape; }
  [[nodiscard]] std::int64_t count() const noexcept { return shape_.count; }  ///< Elements.
  [[nodiscard]] float beta() const noexcept { return memory_.beta; }          ///< 0 or 1, as BLAS's beta.
  /// For scatter-adds: fills the memory with zeros at beta 0, so that only adding remains. Costs the fill.
  [[nodiscard]] void* accumulator() && {
    if (memory_.beta == 0) {
      memory_.clear(shape_.count * bytes_of(shape_.dtype));
    }
    return memory_.data;
  }

 private:
  friend class AnyBackward;
  friend class AnyWeights;
  AnyGradient(detail::Contribution const& memory, AnyView const& shape) noexcept : memory_{memory}, shape_{shape} {}
  detail::Contribution memory_;
  AnyView shape_;  // with the gradient's dtype, and without an address
};

template <Element G, std::size_t D>
class Gradient;
namespace detail {
template <Element G, std::size_t D>
[[nodiscard]] Gradient<G, D> gradient_in(Contribution const& memory, Shape<D> const& shape) noexcept;
}

/// Like AnyGradient, with static type and number of dimensions.
template <Element G, std::size_t D>
class [[nodiscard]] Gradient {
 public:
  Gradient(Gradient&&) noexcept = default;
  /// The memory to write, row-major on the engine's device, in the order of the compute stream, until the guard is
  /// destroyed.
  [[nodiscard]] G* data() const noexcept { return static_cast<G*>(memory_.data); }
  /// The parameter's shape, or that given to reshape().
  [[nodiscard]] Shape<D> const& shape() const noexcept { return shape_; }
  [[nodiscard]] float beta() const noexcept { return memory_.beta; }  ///< 0 or 1, as BLAS's beta.
  /// For scatter-adds: fills the memory with zeros at beta 0, so that only adding remains. Costs the fill.
  [[nodiscard]] View<G, D> accumulator() && {
    View<G, D> const view{data(), shape_};
    if (memory_.beta == 0) {
      memory_.clear(view.count() * static_cast<std::int64_t>(sizeof(G)));
    }
    return view;
  }
  /// The same elements in another shape, such as a convolution kernel as a matrix. Throws ContractError if the counts
  /// differ.
  template <std::size_t N>
  [[nodiscard]] Gradient<G, N> reshape(std::int64_t const (&shape)[N]) && {
    return {memory_, View<G, D>{data(), shape_}.reshape(shape).shape()};
  }

 private:
  template <Element T, GradientOf<T> OfT>
  friend class Backward;
  template <Element OfAny, std::size_t N>
  friend class Gradient;
  friend Gradient detail::gradient_in<G, D>(detail::Contribution const& memory, Shape<D> const& shape) noexcept;
  Gradient(detail::Contribution const& memory, Shape<D> const& shape) noexcept : memory_{memory}, shape_{shape} {}
  detail::Contribution memory_;
  Shape<D> shape_;
};

namespace detail {
/// Makes a gradient in memory that does not belong to an engine, for programs that run their math without one.
template <Element G, std::size_t D>
Gradient<G, D> gradient_in(Contribution const& memory, Shape<D> const& shape) noexcept {
  return {memory, shape};
}
}  // namespace detail

/// Like AnyForward, and provides gradient memory. Its destructor marks the unit's gradients as complete, so that they
/// may be reduced. If an exception destroys it, nothing is sent, and the engine rejects further calls.
class [[nodiscard]] AnyBackward final : public AnyParams {
 public:
  AnyBackward(AnyBackward&&) noexcept = default;
  /// Throws ContractError before report_loss(), and for a frozen parameter. A gradient that is never requested counts
  /// as zero.
  [[nodiscard]] ZEROTH_EXPORT AnyGradient grad(AnyParam const& param) const&;
  void grad(AnyParam const&) const&& = delete;  // as in AnyParams: name the guard

 private:
  friend class AnyMicroStep;
  friend class AnyWork;
  using AnyParams::AnyParams;
};
/// Like AnyBackward, for parameters of type T and gradients of type G.
template <Element T, GradientOf<T> G>
class [[nodiscard]] Backward final : public Params<T> {
 public:
  Backward(Backward&&) noexcept = default;
  /// Throws ContractError before report_loss(), and for a frozen parameter. A gradient that is never requested counts
  /// as zero.
  template <std::size_t D>
  [[nodiscard]] Gradient<G, D> grad(Param<D> const& param) const& {
    return grad_as<G>(param);
  }
  template <std::size_t D>
  void grad(Param<D> const&) const&& = delete;  // as in AnyParams: name the guard
  /// Like grad(), for a gradient of type E: `grad_as<float>(param)` for a parameter with ParamOptions::compute fp32.
  /// Throws ContractError if it has another type.
  template <Element E, std::size_t D>
  [[nodiscard]] Gradient<E, D> grad_as(Param<D> const& param) const& {
    return detail::gradient_in<E, D>(this->guard_.contribute(param.model_, param.id_, dtype_of<E>), param.shape_);
  }
  template <Element E, std::size_t D>
  void grad_as(Param<D> const&) const&& = delete;  // as in AnyParams: name the guard

 private:
  template <Element OfT, GradientOf<OfT> OfG>
  friend class MicroStep;
  template <Element OfT, GradientOf<OfT> OfG>
  friend class Work;
  using Params<T>::Params;
};

/// A guard for Phase::backward_weights: provides gradient memory, but no parameters. Its destructor acts as
/// AnyBackward's.
class [[nodiscard]] AnyWeights final {
 public:
  AnyWeights(AnyWeights&&) noexcept = default;
  /// Like AnyBackward::grad().
  [[nodiscard]] ZEROTH_EXPORT AnyGradient grad(AnyParam const& param) const&;
  void grad(AnyParam const&) const&& = delete;  // as in AnyParams: name the guard

 private:
  friend class AnyWork;
  explicit AnyWeights(detail::Guard guard) noexcept : guard_{std::move(guard)} {}
  detail::Guard guard_;
};
/// Like AnyWeights, for gradients of type G.
template <Element G>
class [[nodiscard]] Weights final {
 public:
  Weights(Weights&&) noexcept = default;
  /// Like Backward::grad().
  template <std::size_t D>
  [[nodiscard]] Gradient<G, D> grad(Param<D> const& param) const& {
    return grad_as<G>(param);
  }
  template <std::size_t D>
  void grad(Param<D> const&) const&& = delete;  // as in AnyParams: name the guard
  /// Like Backward::grad_as().
  template <Element E, std::size_t D>
  [[nodiscard]] Gradient<E, D> grad_as(Param<D> const& param) const& {
    return detail::gradient_in<E, D>(guard_.contribute(param.model_, param.id_, dtype_of<E>), param.shape_);
  }
  template <Element E, std::size_t D>
  void grad_as(Param<D> const&) const&& = delete;  // as in AnyParams: name the guard

 private:
  template <Element OfT, GradientOf<OfT> OfG>
  friend class Work;
  explicit Weights(detail::Guard guard) noexcept : guard_{std::move(guard)} {}
  detail::Guard guard_;
};

}  // namespace zeroth
