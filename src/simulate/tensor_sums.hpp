// SPDX-License-Identifier: Apache-2.0
/// The simulated time of what tensor ranks exchange between layers: see TensorParallel.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "simulate/virtual_device.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::simulate {

/// Operations of TensorParallel by their effect: rows are spread before the first layer of a pair and summed after the
/// second. In backward it is the reverse.
enum class TensorVerb : std::uint8_t {
  spread,  ///< An all-gather with sequence parallelism; without it nothing.
  add_up,  ///< A reduce-scatter with sequence parallelism, an all-reduce without.
};

/// Runs on a separate stream, concurrent with compute until compute waits.
class TensorSums {
 public:
  /// `device` outlives it. `tensor` has the ranks that divide layers.
  TensorSums(std::unique_ptr<comm::Communicator> tensor, VirtualDevice& device, bool sequence, Dtype dtype);
  /// Starts `verbs` on `elements`, which are all rows of all tensor ranks, after all earlier work of compute.
  void start(std::span<TensorVerb const> verbs, double elements, comm::Label const& label);
  /// Makes compute wait for everything that was started.
  void wait();
  /// Total time that compute has waited here.
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
