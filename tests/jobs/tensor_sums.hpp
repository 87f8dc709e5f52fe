// SPDX-License-Identifier: Apache-2.0
/// What tensor ranks tell each other in a drawn job: one number, spread over a matrix that goes through all verbs.
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
  /// std::runtime_error where rows are not where they have to be.
  [[nodiscard]] double forward(double part);
  /// Likewise by leave_backward(), of a number that all have, and enter_backward(), which runs until what is returned
  /// is called.
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
