// SPDX-License-Identifier: Apache-2.0
/// Optimizer states that the host updates in its own memory, for a GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/host_update.hpp"
#include "shard/offloaded_states.hpp"

namespace zeroth::shard {

class Memory;

/// Takes the tiles of a plan in turn. Gradients come to the host on the write stream, and parameters too if they are
/// the masters. The host updates in the order of a separate stream, and new parameters return on the read stream. The
/// host's work is an element of a CUDA stream, so CUDA knows its order among the copies, which flags in memory would
/// hide. A tile's memory is free once its parameters have been copied. The compute stream waits for all of a flat unit,
/// as if it had updated it.
class HostStates final : public OffloadedStates {
 public:
  /// `memory` has the gradients and parameters of the same states.
  HostStates(Parts parts, Memory const& memory);
  ~HostStates() override { stop(); }
  void acquire(optim::UpdateArgs& args) override;
  void update(optim::UpdateArgs const& args) override;
  void release() override;
  void follow_factors(Memory const& memory) override;
  [[nodiscard]] device::Stream& stream() noexcept override { return *updates(); }

 private:
  /// The work of each thread, and of all, on one tile.
  struct Work {
    std::vector<optim::UpdateArgs> shares;
    std::vector<std::vector<optim::Segment>> segments;
    device::HostUpdate update;
  };
  [[nodiscard]] Work work_of(std::int64_t number, Memory const& memory);
  [[nodiscard]] std::int64_t position(std::int64_t number) const noexcept;
  [[nodiscard]] device::Stored parameters_of(std::int64_t number) const noexcept;
  /// Whether `flat` has masters besides its parameters.
  [[nodiscard]] bool has_masters(FlatId flat) const noexcept { return states(flat).front().position >= 0; }

  std::unique_ptr<device::Memory> scalars_;  // optim::StepScalars
  device::UpdateThreads team_;
  std::vector<Work> works_;
  std::unique_ptr<device::Event> begun_, ended_;
  std::span<std::byte> parameters_;  // the acquired tile's
};

}  // namespace zeroth::shard
