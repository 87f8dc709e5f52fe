// SPDX-License-Identifier: Apache-2.0
/// States of the optimizer that the host updates where they are, beside a GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/host_update.hpp"
#include "shard/offloaded_states.hpp"

namespace zeroth::shard {

class Memory;

/// The tiles of a plan in turn. Gradients come to the host on the write stream, and parameters too where they are the
/// masters; the host updates in the order of a stream of its own, and new parameters go on the read stream. That stream
/// is a queue as the others are, and the host's work an element of it: its order among copies is known to CUDA, which
/// flags in memory would hide. A tile's memory is free when its parameters have gone. The compute stream waits for all
/// of a flat unit, as if it had updated it.
class HostStates final : public OffloadedStates {
 public:
  /// `memory` has the gradients and parameters of the same states.
  HostStates(Parts parts, Memory const& memory);
  ~HostStates() override { stop(); }
  void acquire(optim::UpdateArgs& args) override;
  void update(optim::UpdateArgs const& args) override;
  void release() override;
  [[nodiscard]] device::Stream& stream() noexcept override { return *updates(); }

 private:
  /// What each thread that updates does of a tile, and they all.
  struct Work {
    std::vector<optim::UpdateArgs> shares;
    std::vector<std::vector<optim::Segment>> segments;
    device::HostUpdate update;
  };
  [[nodiscard]] Work work_of(std::int64_t number, Memory const& memory);
  [[nodiscard]] std::int64_t position(std::int64_t number) const noexcept;
  [[nodiscard]] device::Stored parameters_of(std::int64_t number) const noexcept;

  bool const parameters_are_masters_;
  std::unique_ptr<device::Memory> scalars_;  // optim::StepScalars
  device::UpdateThreads team_;
  std::vector<Work> works_;
  std::unique_ptr<device::Event> begun_, ended_;
  std::span<std::byte> parameters_;  // of the tile that was acquired
};

}  // namespace zeroth::shard
