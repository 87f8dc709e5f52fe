// SPDX-License-Identifier: Apache-2.0
#include "engine/exchange.hpp"

#include <algorithm>
#include <cstring>

namespace zeroth::engine {

void gather(void const* mine, void* all, std::int64_t count, Dtype dtype, std::string_view purpose,
            Exchange const& exchange) {
  auto const bytes = count * bytes_of(dtype);
  auto const total = exchange.world() * bytes;
  auto const memory = exchange.device->allocate_host(total);  // accessible to streams of every device
  auto* const own = memory->data() + exchange.rank() * bytes;
  std::memcpy(own, mine, static_cast<std::size_t>(bytes));
  exchange.communicator->all_gather(*exchange.stream, {purpose, ""}, own, memory->data(), count, dtype);
  exchange.stream->synchronize();
  std::memcpy(all, memory->data(), static_cast<std::size_t>(total));
}

void tell(std::span<float> values, int root, Exchange const& exchange) {
  constexpr std::size_t most = std::size_t{1} << 18U;  // elements at once
  auto const memory =
      exchange.device->allocate_host(static_cast<std::int64_t>(std::min(most, values.size()) * sizeof(float)));
  for (std::size_t first = 0; first < values.size(); first += most) {
    auto const piece = values.subspan(first, std::min(most, values.size() - first));
    std::memcpy(memory->data(), piece.data(), piece.size_bytes());
    exchange.communicator->broadcast(*exchange.stream, {"read", ""}, memory->data(), memory->data(), std::ssize(piece),
                                     Dtype::fp32, root);
    exchange.stream->synchronize();
    std::memcpy(piece.data(), memory->data(), piece.size_bytes());
  }
}

}  // namespace zeroth::engine
