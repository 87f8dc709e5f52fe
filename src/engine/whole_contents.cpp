// SPDX-License-Identifier: Apache-2.0
#include "engine/whole_contents.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/record_format.hpp"

namespace zeroth::engine {
namespace {

constexpr std::string_view of_save = "save";

/// Sends or receives a text, between this rank and `peer`. Waits.
void pass_text(comm::Operation operation, std::span<char> text, int peer, Exchange const& exchange) {
  constexpr auto most = std::size_t{1} << 20U;
  auto const memory = exchange.device->allocate_host(static_cast<std::int64_t>(most));
  for (std::size_t first = 0; first < text.size(); first += most) {
    auto const piece = text.subspan(first, std::min(most, text.size() - first));
    if (operation == comm::Operation::send) {
      std::memcpy(memory->data(), piece.data(), piece.size());
    }
    std::array const transaction{
        comm::Collective{operation, memory->data(), memory->data(), std::ssize(piece), Dtype::byte, peer}};
    exchange.communicator->submit(*exchange.stream, {of_save, ""}, transaction);
    exchange.stream->synchronize();
    if (operation == comm::Operation::receive) {
      std::memcpy(piece.data(), memory->data(), piece.size());
    }
  }
}

}  // namespace

std::optional<checkpoint::Contents> gather_contents(checkpoint::Contents const& own, Exchange const& sharing,
                                                    Exchange const& whole) {
  bool const is_first = whole.rank() == 0;
  bool const says = sharing.rank() == 0 && !is_first;
  auto text = says ? checkpoint::text_of_spaces(own) : std::string{};
  auto const length = static_cast<std::int64_t>(text.size());
  auto const lengths = gather(std::span{&length, 1}, of_save, whole);
  if (says) {
    pass_text(comm::Operation::send, text, 0, whole);
  }
  if (!is_first) {
    return std::nullopt;
  }
  auto contents = own;
  for (std::size_t rank = 1; rank < lengths.size(); ++rank) {
    if (lengths[rank] > 0) {
      text.resize(static_cast<std::size_t>(lengths[rank]));
      pass_text(comm::Operation::receive, text, static_cast<int>(rank), whole);
      checkpoint::add_spaces_of_text(text, contents);
    }
  }
  checkpoint::place_states(contents);
  return contents;
}

}  // namespace zeroth::engine
