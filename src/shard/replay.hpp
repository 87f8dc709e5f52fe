// SPDX-License-Identifier: Apache-2.0
/// Runs a micro-step twice, to find processors, memory and programs whose results differ.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "shard/layout.hpp"
#include "zeroth/core/by_id.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/device/memory.hpp"

namespace zeroth::shard {

/// How often a pass runs. The first run of two only leaves hashes of its gradients. The second one is compared with
/// them, and counts.
enum class Run : std::uint8_t { once, first_of_two, second_of_two };

/// Hashes of a rank's gradients. If `replays` says that passes will run twice, costs 8 bytes for each, and on a GPU a
/// MiB of pinned memory.
class Replay {
 public:
  Replay(device::Device& device, std::size_t gradients, bool replays);
  void begin_pass(Run run) noexcept { run_ = run; }
  [[nodiscard]] Run run() const noexcept { return run_; }
  /// For a pass that runs twice. Waits for the compute stream. `gradient` is empty if nothing was added to it. Returns
  /// false if this is the second run and the first one had another gradient.
  [[nodiscard]] bool is_same(GradientId of, std::span<std::byte const> gradient);

 private:
  [[nodiscard]] std::uint64_t hash_of(std::span<std::byte const> gradient);

  device::Device* device_;
  Run run_ = Run::once;
  ById<GradientId, std::uint64_t> first_;
  std::unique_ptr<device::Memory> piece_;  // a buffer on the host for a piece of a gradient on a GPU
};

}  // namespace zeroth::shard
