// SPDX-License-Identifier: Apache-2.0
#include "comm/gather_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>

#include "zeroth/comm/uneven.hpp"

namespace zeroth::comm {
namespace {

/// Host memory that the streams of every device can use.
std::unique_ptr<device::Memory> allocate(device::Device& device, std::int64_t count) {
  return device.allocate_host(std::max(count, std::int64_t{1}));
}

std::vector<std::int64_t> gather_lengths(GatherOn const& on, std::size_t own) {
  auto const world = static_cast<std::size_t>(on.communicator.world());
  auto const memory = allocate(on.device, static_cast<std::int64_t>(world * sizeof(std::int64_t)));
  auto* const all = reinterpret_cast<std::int64_t*>(memory->data());
  auto* const mine = all + on.communicator.rank();
  *mine = static_cast<std::int64_t>(own);
  on.communicator.all_gather(on.stream, {on.purpose, "lengths"}, mine, all, 1, Dtype::int64);
  on.stream.synchronize();
  return {all, all + world};
}

}  // namespace

std::vector<std::string> gather_bytes(GatherOn const& on, std::string_view bytes, std::optional<int> root) {
  auto const lengths = gather_lengths(on, bytes.size());
  bool const receives = !root || *root == on.communicator.rank();
  auto const total = std::reduce(lengths.begin(), lengths.end());
  std::vector<std::string> result(receives ? lengths.size() : std::size_t{0});
  if (total == 0) {
    return result;
  }
  auto const mine = allocate(on.device, std::ssize(bytes)), all = allocate(on.device, receives ? total : 0);
  std::ranges::copy(std::as_bytes(std::span{bytes}), mine->data());
  auto const messages =
      root ? gather_v(on.communicator, mine->data(), receives ? all->data() : nullptr, lengths, Dtype::byte, *root)
           : all_gather_v(on.communicator, mine->data(), all->data(), lengths, Dtype::byte);
  on.communicator.submit(on.stream, {on.purpose, "bytes"}, messages);
  on.stream.synchronize();
  auto const* from = reinterpret_cast<char const*>(all->data());
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    result[rank].assign(from, static_cast<std::size_t>(lengths[rank]));
    from += lengths[rank];
  }
  return result;
}

}  // namespace zeroth::comm
