// SPDX-License-Identifier: Apache-2.0
#include "shard/replay.hpp"

#include <algorithm>

#include "core/lane_hash.hpp"
#include "device/kernels.hpp"

namespace zeroth::shard {

namespace {
constexpr std::size_t piece_bytes = std::size_t{1} << 20U;
}  // namespace

Replay::Replay(device::Device& device, std::size_t gradients, bool replays)
    : device_{&device},
      first_(replays ? gradients : 0, 0),
      piece_{replays && !device.has_host_memory() ? device.allocate_host(piece_bytes) : nullptr} {}

bool Replay::is_same(GradientId of, std::span<std::byte const> gradient) {
  auto const hash = hash_of(gradient);
  if (run_ == Run::first_of_two) {
    first_[of] = hash;
  }
  return first_[of] == hash;
}

std::uint64_t Replay::hash_of(std::span<std::byte const> gradient) {
  LaneHash hash;
  if (!device_->holds_values()) {
    return hash.value();
  }
  auto& compute = device_->compute();
  if (device_->has_host_memory()) {
    compute.synchronize();
    hash.add(gradient);
    return hash.value();
  }
  for (; !gradient.empty(); gradient = gradient.subspan(std::min(piece_bytes, gradient.size()))) {
    auto const bytes = std::min(piece_bytes, gradient.size());
    device_->kernels().copy(compute, piece_->data(), gradient.data(), static_cast<std::int64_t>(bytes));
    compute.synchronize();
    hash.add({piece_->data(), bytes});
  }
  return hash.value();
}

}  // namespace zeroth::shard
