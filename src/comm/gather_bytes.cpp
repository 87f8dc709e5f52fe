// SPDX-License-Identifier: Apache-2.0
#include "comm/gather_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
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
  auto const longest = std::ranges::max(lengths);
  bool const receives = !root || *root == on.communicator.rank();
  std::vector<std::string> result(receives ? lengths.size() : std::size_t{0});
  if (longest == 0) {
    return result;
  }
  // Every rank sends a block of the greatest length. With messages of different lengths, a rank that has sent its own
  // bytes could continue, and end the job by an error, before the others have received them.
  auto const stride = [&](std::size_t rank) { return root ? lengths[rank] : longest; };
  std::int64_t total = 0;
  for (std::size_t rank = 0; receives && rank < lengths.size(); ++rank) {
    total += stride(rank);
  }
  auto const mine = allocate(on.device, root ? std::ssize(bytes) : longest), all = allocate(on.device, total);
  std::ranges::copy(std::as_bytes(std::span{bytes}), mine->data());
  if (root) {
    auto const messages =
        gather_v(on.communicator, mine->data(), receives ? all->data() : nullptr, lengths, Dtype::byte, *root);
    on.communicator.submit(on.stream, {on.purpose, "bytes"}, messages);
  } else {
    on.communicator.all_gather(on.stream, {on.purpose, "bytes"}, mine->data(), all->data(), longest, Dtype::byte);
  }
  on.stream.synchronize();
  auto const* from = reinterpret_cast<char const*>(all->data());
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    result[rank].assign(from, static_cast<std::size_t>(lengths[rank]));
    from += stride(rank);
  }
  return result;
}

}  // namespace zeroth::comm
