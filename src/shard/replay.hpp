// SPDX-License-Identifier: Apache-2.0
/// A micro-step that runs twice, to find processors, memory and programs that do not compute the same twice.
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

/// How often a pass runs. The first run of two leaves only hashes of its gradients; the second one is compared with
/// them, and counts.
enum class Run : std::uint8_t { once, first_of_two, second_of_two };

/// Hashes of a rank's gradients. Costs 8 bytes for each, and on a GPU a MiB of pinned memory, where `replays`
/// says that passes will run twice.
class Replay {
 public:
  Replay(device::Device& device, std::size_t gradients, bool replays);
  void begin_pass(Run run) noexcept { run_ = run; }
  [[nodiscard]] Run run() const noexcept { return run_; }
  /// In a pass that runs twice. Waits for the compute stream. `gradient` is empty where nothing was added to it. True
  /// unless this is the second run and the first one had another gradient.
  [[nodiscard]] bool is_same(GradientId of, std::span<std::byte const> gradient);

 private:
  [[nodiscard]] std::uint64_t hash_of(std::span<std::byte const> gradient);

  device::Device* device_;
  Run run_ = Run::once;
  ById<GradientId, std::uint64_t> first_;
  std::unique_ptr<device::Memory> piece_;  // of a gradient, on the host of a GPU
};

}  // namespace zeroth::shard
