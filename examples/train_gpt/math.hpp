// SPDX-License-Identifier: Apache-2.0
/// The Device that layers compute on: cpu::Cpu<T>, gpu::Gpu<T> or cpu::Rehearsal<T>. It has
///   Element   the type of activations;  Wide   the type of sums;  Seed   the factor of the loss's gradient
///   Matrix<V>, Batch, tokens(batch)
///   expect_heads(shape)    throws ConfigError for heads that it does not support
///   keeps_hidden           whether GELU's output is kept for backward, or recomputed
///   divides_layers         whether tensor ranks can divide a layer's work: then it is a TensorRanks
///   overwrites_logits      whether the gradient of logits overwrites them even if it has another type
/// and one function for each numeric operation of a layer, multiply(Product) first of all.
#pragma once
#include <cstddef>

#include <zeroth/core/random.hpp>

#include "units.hpp"

namespace gpt {

template <class Device>
using Activations = typename Device::template Matrix<typename Device::Element>;
template <class Device>
using Sums = typename Device::template Matrix<typename Device::Wide>;

/// An open unit, and the device to compute on.
template <class Device, class Guard>
struct OpenUnit {
  Device& device;
  Guard guard;
  zeroth::Random random{};  ///< Random numbers of the micro-batch's first sequence and use 0.

  template <std::size_t D>
  [[nodiscard]] auto operator[](Param<D> const& param) const {
    return guard[param];
  }
  template <std::size_t D>
  [[nodiscard]] auto grad(Param<D> const& param) const {
    return guard.grad(param);
  }
};

/// Wraps a pass of the engine, and adds the device to the units that it opens.
template <class Device, class Micro>
class PassOn {
 public:
  /// Without `draws` no layer may draw random numbers.
  PassOn(Device& device, Micro& micro, bool draws = true) : device_{device}, micro_{micro}, draws_{draws} {}
  [[nodiscard]] auto forward(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.forward(unit))>{device_, micro_.forward(unit), random()};
  }
  [[nodiscard]] auto backward(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.backward(unit))>{device_, micro_.backward(unit), random()};
  }
  /// For pipelines whose schedule divides backward.
  [[nodiscard]] auto inputs(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.inputs(unit))>{device_, micro_.inputs(unit), random()};
  }
  [[nodiscard]] auto weights(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.weights(unit))>{device_, micro_.weights(unit), random()};
  }

 private:
  [[nodiscard]] zeroth::Random random() const { return draws_ ? micro_.random(0, 0) : zeroth::Random{}; }

  Device& device_;
  Micro& micro_;
  bool draws_;
};

}  // namespace gpt
