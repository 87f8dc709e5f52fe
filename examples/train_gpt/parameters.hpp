// SPDX-License-Identifier: Apache-2.0
/// Parameters and gradients as the math sees them: Eigen maps of one scalar type, whatever the engine stores.
///
/// Abstract, so that the math is compiled once and not once per precision, and so that tests can run it in double.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include <zeroth/adapters/eigen.hpp>

#include "units.hpp"

namespace gpt {

template <class S>
using Matrix = zeroth::Matrix<S>;
template <class S>
using RowVector = zeroth::RowVector<S>;
/// Rows of somebody's matrix.
template <class S>
using In = Eigen::Ref<Matrix<S> const> const&;
template <class S>
using Out = Eigen::Ref<Matrix<S>>;

template <class S, std::size_t D>
using Tensor = Eigen::Map<zeroth::detail::Plain<S, D>>;
template <class S, std::size_t D>
using ConstTensor = Eigen::Map<zeroth::detail::Plain<S, D> const>;

template <class S, std::size_t D>
[[nodiscard]] Tensor<S, D> tensor(S* data, zeroth::Shape<D> const& shape) {
  return {data, D == 2 ? shape[0] : 1, shape[D - 1]};
}
template <class S, std::size_t D>
[[nodiscard]] ConstTensor<S, D> const_tensor(S const* data, zeroth::Shape<D> const& shape) {
  return {data, D == 2 ? shape[0] : 1, shape[D - 1]};
}

/// What one use of a parameter adds to its gradient. Several terms may be added; asking for it is the promise to write
/// it.
template <class S, std::size_t D>
class Contribution {
 public:
  /// Where the sum goes if it is made in another type: `store(target, values, count, beta)` as this ends.
  struct Target {
    void (*store)(void* target, S const* values, std::int64_t count, float beta) noexcept = nullptr;
    void* data = nullptr;
    float beta = 0;
  };

  /// At `beta` 0 the old content of `data` is garbage.
  Contribution(S* data, zeroth::Shape<D> const& shape, float beta, Target const& target = {}) noexcept
      : sum_{tensor<S, D>(data, shape)}, empty_{beta == 0}, target_{target} {}
  Contribution(Contribution&& other) noexcept
      : sum_{other.sum_}, empty_{other.empty_}, target_{std::exchange(other.target_, Target{})} {}
  Contribution& operator=(Contribution&&) = delete;
  ~Contribution() {
    if (target_.store != nullptr) {
      target_.store(target_.data, sum_.data(), sum_.size(), target_.beta);
    }
  }

  template <class Derived>
  void operator+=(Eigen::MatrixBase<Derived> const& term) {
    if (std::exchange(empty_, false)) {
      sum_.noalias() = term;
    } else {
      sum_.noalias() += term;
    }
  }
  /// Zeros, or what is there already: for sums that are made element by element.
  [[nodiscard]] Tensor<S, D>& accumulator() {
    if (std::exchange(empty_, false)) {
      sum_.setZero();
    }
    return sum_;
  }

 private:
  Tensor<S, D> sum_;
  bool empty_;
  Target target_;
};

/// The parameters of one open unit.
template <class S>
class Parameters {
 public:
  Parameters() = default;
  Parameters(Parameters const&) = delete;
  Parameters& operator=(Parameters const&) = delete;
  virtual ~Parameters() = default;
  [[nodiscard]] virtual ConstTensor<S, 1> operator[](Param<1> const& param) const = 0;
  [[nodiscard]] virtual ConstTensor<S, 2> operator[](Param<2> const& param) const = 0;
};

/// The parameters of a unit that is open for backward, and what it may add to their gradients.
template <class S>
class Gradients : public Parameters<S> {
 public:
  [[nodiscard]] virtual Contribution<S, 1> grad(Param<1> const& param) const = 0;
  [[nodiscard]] virtual Contribution<S, 2> grad(Param<2> const& param) const = 0;
};

}  // namespace gpt
