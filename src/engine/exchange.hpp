// SPDX-License-Identifier: Apache-2.0
/// Small collectives among an engine's ranks, from and to host memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::engine {

/// The communicator, device and stream of a collective.
struct Exchange {
  comm::Communicator* communicator;
  device::Device* device;
  device::Stream* stream;
  [[nodiscard]] int world() const noexcept { return communicator->world(); }
  [[nodiscard]] int rank() const noexcept { return communicator->rank(); }
  /// The rank number that messages use for rank `rank` of the communicator.
  [[nodiscard]] int job_rank(std::size_t rank) const noexcept { return communicator->job_rank(static_cast<int>(rank)); }
};

/// All-gather from host memory: `count` values of every rank, in order of rank: [count] to [world * count]. Collective;
/// waits.
void gather(void const* mine, void* all, std::int64_t count, Dtype dtype, std::string_view purpose,
            Exchange const& exchange);

/// Broadcasts `values` of rank `root`. Collective; waits.
void tell(std::span<float> values, int root, Exchange const& exchange);

/// All-gather of numbers or characters.
template <class T>
[[nodiscard]] std::vector<T> gather(std::span<T const> mine, std::string_view purpose, Exchange const& exchange) {
  static_assert(std::is_same_v<T, double> || (std::is_integral_v<T> && (sizeof(T) == 1 || sizeof(T) == 8)));
  constexpr auto dtype = std::is_same_v<T, double> ? Dtype::fp64 : sizeof(T) == 1 ? Dtype::byte : Dtype::int64;
  std::vector<T> all(static_cast<std::size_t>(exchange.world()) * mine.size());
  gather(mine.data(), all.data(), std::ssize(mine), dtype, purpose, exchange);
  return all;
}

}  // namespace zeroth::engine
