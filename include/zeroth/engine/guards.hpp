/// What a unit looks like while it is open: its parameters, and in backward its gradients.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "zeroth/core/view.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth {

namespace detail {
class EngineState;

/// What a guard asks the engine. `guard` distinguishes this opening of the unit from every other.
struct GuardHandle {
  EngineState* engine = nullptr;  ///< Null when moved from.
  std::uint64_t guard = 0;
};
struct Contribution {
  void* data;
  float beta;
};
[[nodiscard]] void const* parameter_address(GuardHandle handle, std::uint32_t model, std::uint32_t param);
[[nodiscard]] Contribution contribute(GuardHandle handle, std::uint32_t model, std::uint32_t param);
void close(GuardHandle handle, int exceptions_when_opened) noexcept;
void fill_zero(EngineState* engine, void* data, std::int64_t bytes);  ///< On the compute stream.
[[nodiscard]] int exceptions_in_flight() noexcept;
}  // namespace detail

/// One unit's readable parameters: what forward, evaluation and recomputation take, as `Params<T> const&`. What is read
/// through a view after its guard is another unit's, or out of date; NaN under `zeroth.poison`.
template <Element T>
class Params {
 public:
  Params(Params const&) = delete;
  Params& operator=(Params const&) = delete;  // would acquire the next unit before it releases this one
  /// Throws ContractError if the unit neither holds nor ties `param`.
  template <std::size_t D>
  [[nodiscard]] View<T const, D> operator[](Param<D> const& param) const& {
    return {static_cast<T const*>(detail::parameter_address(handle_, param.model_, param.index_)), param.shape_};
  }
  template <std::size_t D>
  void operator[](Param<D> const&) const&& = delete;  // name the guard: it must outlive the view

 protected:
  explicit Params(detail::GuardHandle handle) noexcept : handle_{handle}, exceptions_{detail::exceptions_in_flight()} {}
  Params(Params&& other) noexcept
      : handle_{std::exchange(other.handle_, detail::GuardHandle{})}, exceptions_{other.exceptions_} {}
  ~Params() {
    if (handle_.engine != nullptr) {
      detail::close(handle_, exceptions_);
    }
  }
  detail::GuardHandle handle_;
  int exceptions_;
};

/// Keeps one unit's parameters readable on the compute stream until it ends.
template <Element T>
class [[nodiscard]] Forward final : public Params<T> {
 public:
  explicit Forward(detail::GuardHandle handle) noexcept : Params<T>{handle} {}
  Forward(Forward&&) noexcept = default;
};

/// One contribution to a gradient: write every element once, as `beta() * old + new`. At beta 0 the old value is
/// garbage (NaN under `zeroth.poison`). Asking for it is the promise to write it, so it cannot be copied.
template <Element G, std::size_t D>
class [[nodiscard]] Gradient {
 public:
  Gradient(detail::EngineState* engine, View<G, D> memory, float beta) noexcept
      : engine_{engine}, memory_{memory}, beta_{beta} {}
  Gradient(Gradient&&) noexcept = default;
  [[nodiscard]] G* data() const noexcept { return memory_.data(); }
  [[nodiscard]] Shape<D> const& shape() const noexcept { return memory_.shape(); }
  [[nodiscard]] float beta() const noexcept { return beta_; }  ///< 0 or 1; what BLAS calls beta.
  /// For scatter-adds: fills with zeros at beta 0, so that adding is all that is left to do. Costs the fill.
  [[nodiscard]] View<G, D> accumulator() && {
    if (beta_ == 0) {
      detail::fill_zero(engine_, memory_.data(), memory_.count() * static_cast<std::int64_t>(sizeof(G)));
    }
    return memory_;
  }

 private:
  detail::EngineState* engine_;
  View<G, D> memory_;
  float beta_;
};

/// As Forward, and hands out gradient memory. When it ends, the unit's gradients are complete and may be reduced; if it
/// ends by an exception, nothing is sent and the engine refuses further work.
template <Element T, GradientOf<T> G>
class [[nodiscard]] Backward final : public Params<T> {
 public:
  explicit Backward(detail::GuardHandle handle) noexcept : Params<T>{handle} {}
  Backward(Backward&&) noexcept = default;
  /// Throws ContractError before the loss was reported, and for a frozen parameter. One never asked for counts as zero.
  template <std::size_t D>
  [[nodiscard]] Gradient<G, D> grad(Param<D> const& param) const& {
    auto const [data, beta] = detail::contribute(this->handle_, param.model_, param.index_);
    return {this->handle_.engine, View<G, D>{static_cast<G*>(data), param.shape_}, beta};
  }
  template <std::size_t D>
  void grad(Param<D> const&) const&& = delete;  // as in Params: name the guard
};

}  // namespace zeroth
