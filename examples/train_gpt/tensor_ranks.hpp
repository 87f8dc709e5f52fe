// SPDX-License-Identifier: Apache-2.0
/// The part of a Device that tensor ranks share: the sums and gathers between the layers that they divide.
#pragma once
#include <cstdint>

#include <zeroth/parallel/tensor.hpp>

#include "units.hpp"

namespace gpt {

/// `Device` derives from it and has copy_elements(from, count, to). `Matrix` is its matrix of activations, of type T.
template <class Device, class T, class Matrix>
class TensorRanks {
 public:
  /// `tensor` must outlive it; if it is null, no layer is divided.
  explicit TensorRanks(zeroth::TensorParallel* tensor) : tensor_{tensor} {}

  [[nodiscard]] int tensor_ranks() const { return tensor_ != nullptr ? tensor_->ranks() : 1; }
  /// Whether tensor ranks divide the rows between layers.
  [[nodiscard]] bool divides_rows() const { return tensor_ != nullptr && tensor_->sequence(); }
  /// The index of `own`'s first row among all rows of the micro-batch.
  [[nodiscard]] std::int64_t first_own_row(Matrix const& own) const {
    return divides_rows() ? tensor_->index() * own.rows() : 0;
  }
  void own_rows(Matrix const& all, Matrix& own) const {
    own.resize(all.rows() / tensor_->ranks(), all.cols());
    device().copy_elements(all.data() + first_own_row(own) * all.cols(), own.count(), own.data());
  }
  /// The words that this rank has.
  [[nodiscard]] zeroth::VocabularyPart rows(Param<2> const& words) const {
    auto const all = words.global_shape()[0];
    return tensor_ != nullptr ? tensor_->rows(words) : zeroth::VocabularyPart{0, all, all, all};
  }

  /// If layers are divided, starts a sum over tensor ranks in place. After wait(), this rank's rows hold the sum.
  [[nodiscard]] auto leave(Matrix& y) const { return tensor_->leave(whole(y)); }
  [[nodiscard]] auto enter_backward(Matrix& dy) const { return tensor_->enter_backward(whole(dy)); }
  /// If rows are divided, starts an all-gather of them.
  [[nodiscard]] auto enter(Matrix const& own, Matrix& all) const { return tensor_->enter(spread(own, all)); }
  [[nodiscard]] auto leave_backward(Matrix const& own, Matrix& all) const {
    return tensor_->leave_backward(spread(own, all));
  }

 protected:
  [[nodiscard]] zeroth::TensorParallel& tensor() const { return *tensor_; }
  [[nodiscard]] static auto whole(Matrix& matrix) {
    return zeroth::View<T, 2>{matrix.data(), {matrix.rows(), matrix.cols()}};
  }

 private:
  [[nodiscard]] Device const& device() const { return static_cast<Device const&>(*this); }
  [[nodiscard]] auto spread(Matrix const& own, Matrix& all) const {
    all.resize(own.rows() * tensor_->ranks(), own.cols());
    device().copy_elements(own.data(), own.count(), all.data() + first_own_row(own) * own.cols());
    return whole(all);
  }

  zeroth::TensorParallel* tensor_;
};

}  // namespace gpt
