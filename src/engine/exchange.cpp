// SPDX-License-Identifier: Apache-2.0
#include "engine/exchange.hpp"

#include <cstring>

namespace zeroth::engine {

void gather(void const* mine, void* all, std::int64_t count, Dtype dtype, std::string_view purpose,
            Exchange const& exchange) {
  auto const bytes = count * bytes_of(dtype);
  auto const total = exchange.world() * bytes;
  auto const memory = exchange.device->allocate_host(total);  // where streams of every device can work
  auto* const own = memory->data() + exchange.rank() * bytes;
  std::memcpy(own, mine, static_cast<std::size_t>(bytes));
  exchange.communicator->all_gather(*exchange.stream, {purpose, ""}, own, memory->data(), count, dtype);
  exchange.stream->synchronize();
  std::memcpy(all, memory->data(), static_cast<std::size_t>(total));
}

}  // namespace zeroth::engine
