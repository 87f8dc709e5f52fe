// SPDX-License-Identifier: Apache-2.0
/// What the layers compute on: a Device, which is cpu::Cpu<T>, gpu::Gpu<T> or cpu::Rehearsal<T>. It has
///   Element   what activations are stored in;  Wide   what sums are made in
///   Matrix<V>, Batch, tokens(batch)
///   expect_heads(shape)    throws ConfigError for those that it cannot attend with
///   keeps_hidden           whether GELU's output is kept for backward, or made again
///   divides_layers         whether tensor ranks can divide what a layer does: then it has leave() and enter_backward()
/// and one function for everything that a layer does with numbers, multiply(Product) first of all.
#pragma once
#include <cstddef>

#include <zeroth/core/random.hpp>

#include "units.hpp"

namespace gpt {

template <class Device>
using Activations = typename Device::template Matrix<typename Device::Element>;
template <class Device>
using Sums = typename Device::template Matrix<typename Device::Wide>;

/// A unit that is open, and where to work on it.
template <class Device, class Guard>
struct OpenUnit {
  Device& device;
  Guard guard;
  zeroth::Random random{};  ///< Of the micro-batch's first sequence, for use 0.

  template <std::size_t D>
  [[nodiscard]] auto operator[](Param<D> const& param) const {
    return guard[param];
  }
  template <std::size_t D>
  [[nodiscard]] auto grad(Param<D> const& param) const {
    return guard.grad(param);
  }
};

/// The Pass of a device around one of the engine's.
template <class Device, class Micro>
class PassOn {
 public:
  PassOn(Device& device, Micro& micro) : device_{device}, micro_{micro} {}
  [[nodiscard]] auto forward(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.forward(unit))>{device_, micro_.forward(unit), micro_.random(0, 0)};
  }
  [[nodiscard]] auto backward(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.backward(unit))>{device_, micro_.backward(unit), micro_.random(0, 0)};
  }
  /// In a pipeline whose schedule divides backward.
  [[nodiscard]] auto inputs(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.inputs(unit))>{device_, micro_.inputs(unit), micro_.random(0, 0)};
  }
  [[nodiscard]] auto weights(zeroth::Unit unit) {
    return OpenUnit<Device, decltype(micro_.weights(unit))>{device_, micro_.weights(unit), micro_.random(0, 0)};
  }

 private:
  Device& device_;
  Micro& micro_;
};

}  // namespace gpt
