// SPDX-License-Identifier: Apache-2.0
/// What tensor ranks tell each other between layers, on a clock: see TensorParallel.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "simulate/virtual_device.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::simulate {

/// The verbs of TensorParallel, by what they do: rows are spread before the first layer of a pair and added up behind
/// the second, and the other way round in backward.
enum class TensorVerb : std::uint8_t {
  spread,  ///< An all-gather with sequence parallelism; without it nothing.
  add_up,  ///< A reduce-scatter with sequence parallelism, an all-reduce without.
};

/// Runs on a stream of its own, beside compute until compute waits.
class TensorSums {
 public:
  /// `device` outlives it. `tensor` has the ranks that divide layers.
  TensorSums(std::unique_ptr<comm::Communicator> tensor, VirtualDevice& device, bool sequence, Dtype dtype);
  /// Of `elements`, all rows of all tensor ranks. Starts once compute is through with what it has been given.
  void start(std::span<TensorVerb const> verbs, double elements, comm::Label const& label);
  /// Compute goes on once everything that was started is over.
  void wait();
  /// How long compute has waited here, in all.
  [[nodiscard]] double waited_us() const noexcept { return waited_us_; }

 private:
  std::unique_ptr<comm::Communicator> tensor_;
  VirtualDevice& device_;
  bool sequence_;
  Dtype dtype_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> ready_, over_;
  double waited_us_ = 0;
};

}  // namespace zeroth::simulate
