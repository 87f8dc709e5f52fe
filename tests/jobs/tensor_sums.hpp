// SPDX-License-Identifier: Apache-2.0
/// Communication of tensor ranks in a drawn job: a number, spread over a matrix that goes through all functions of
/// TensorParallel.
#pragma once
#include <functional>

#include "zeroth/parallel/tensor.hpp"

namespace zeroth::testing::jobs {

class TensorSums {
 public:
  /// `tensor` is Mesh::tensor(). Collective.
  TensorSums(Job& tensor, bool sequence, Dtype compute) : tp_{tensor, {.sequence = sequence}}, dtype_{compute} {}
  [[nodiscard]] int index() const noexcept { return tp_.index(); }
  /// The sum of all ranks' `part`, by leave() and enter(). The same with and without sequence parallelism. Throws
  /// std::runtime_error if rows are at wrong places.
  [[nodiscard]] double forward(double part);
  /// The same by leave_backward(), for a number that all ranks have, and enter_backward(), which runs until the
  /// returned function is called.
  [[nodiscard]] std::function<double()> backward(double same, double part);

 private:
  template <Element T>
  double forward_in(double part);
  template <Element T>
  std::function<double()> backward_in(double same, double part);
  TensorParallel tp_;
  Dtype dtype_;
};

}  // namespace zeroth::testing::jobs
