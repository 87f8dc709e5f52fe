// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/tcp_collectives.hpp"

#include <algorithm>
#include <functional>

#include "core/bytes_at.hpp"
#include "device/rank_fold.hpp"

namespace zeroth::comm {
namespace {

/// Within a machine: one part of every rank, small enough to be folded before it leaves the caches.
constexpr std::int64_t cached_bytes = 256 << 10;
/// Over the network: parts small enough to be folded before they leave the caches, and so many in flight that a slow
/// network is never idle. Staging memory limits them before `most_slots` does.
constexpr std::int64_t network_part_bytes = 512 << 10;
constexpr std::int64_t most_slots = 64;

HostCollectives::Cut cut_for(bool within_memory, int world) {
  return within_memory ? HostCollectives::Cut{cached_bytes / world}
                       : HostCollectives::Cut{network_part_bytes, most_slots};
}

}  // namespace

TcpCollectives::TcpCollectives(Transfers& transfers, int rank, int world)
    : HostCollectives{rank, world, cut_for(transfers.within_memory(), world)},
      transfers_{transfers},
      met_(static_cast<std::size_t>(world)) {}

template <class F>
void TcpCollectives::for_others(F const& function) const {
  for (int i = 1; i < world(); ++i) {
    function((rank() + i) % world());
  }
}

Transfers::Part& TcpCollectives::part_number(std::size_t index) {
  while (index >= parts_.size()) {
    parts_.push_back(std::make_unique<Transfers::Part>());
  }
  return *parts_[index];
}

void TcpCollectives::await_parts(std::size_t first, std::size_t count) {
  std::size_t come = first;
  auto const all = [&] {
    bool any_missing = false;
    for (std::size_t i = come; i < first + count; ++i) {
      any_missing = !transfers_.has_come(part_number(i)) || any_missing;
      come = any_missing ? come : i + 1;
    }
    return !any_missing;
  };
  transfers_.wait(std::ref(all));
}

void TcpCollectives::await_releases() {
  auto const all = [&] { return transfers_.all_released(Tag::blocks); };
  transfers_.wait(std::ref(all));
}

void TcpCollectives::move(Collective const& collective) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  auto const* const input = bytes_at(collective.input, 0);
  auto* const output = bytes_at(collective.output, 0);
  int const root = collective.peer;
  std::size_t taken = 0;
  auto const show = [&](int to, std::byte const* data) { transfers_.show(to, Tag::blocks, data, bytes); };
  auto const take = [&](int from, std::byte* to) {
    transfers_.begin(part_number(taken++), from, Tag::blocks, 0, bytes, to, true);
  };
  auto const copy = [&](std::byte* to, std::byte const* from) {
    if (to != from) {
      device::copy_bytes(to, from, bytes);
    }
  };
  switch (collective.operation) {
    case Operation::broadcast:
      if (rank() == root) {
        for_others([&](int other) { show(other, input); });
        copy(output, input);
      } else {
        take(root, output);
      }
      break;
    case Operation::gather:
      if (rank() == root) {
        for_others([&](int other) { take(other, output + other * bytes); });
        copy(output + rank() * bytes, input);
      } else {
        show(root, input);
      }
      break;
    case Operation::scatter:
      if (rank() == root) {
        for_others([&](int other) { show(other, input + other * bytes); });
        copy(output, input + rank() * bytes);
      } else {
        take(root, output);
      }
      break;
    case Operation::all_to_all:
      for_others([&](int other) { take(other, output + other * bytes); });
      for_others([&](int other) { show(other, input + other * bytes); });
      copy(output + rank() * bytes, input + rank() * bytes);
      break;
    default: {
      std::byte const mine{};
      return all_gather(&mine, met_.data(), 1);
    }
  }
  await_parts(0, taken);
  await_releases();
}

void TcpCollectives::all_gather(void const* input, std::byte* output, std::int64_t bytes) {
  std::byte* const mine = output + rank() * bytes;
  std::size_t taken = 0;
  for_others([&](int other) {
    transfers_.begin(part_number(taken++), other, Tag::blocks, 0, bytes, output + other * bytes, true);
  });
  for_others([&](int other) { transfers_.show(other, Tag::blocks, input, bytes); });
  if (input != mine) {
    device::copy_bytes(mine, input, bytes);
  }
  await_parts(0, taken);
  await_releases();
}

void TcpCollectives::exchange_with_peers(std::span<Collective const> messages, std::byte const* sent,
                                         std::byte* received, std::int64_t bytes) {
  std::size_t taken = 0;
  auto const for_each = [&](auto const& function) {
    std::int64_t offset = 0;
    for (auto const& each : messages) {
      bool const sends = each.operation == Operation::send;
      function(each.peer, sends ? Tag::from_senders : Tag::from_receivers,
               sends ? Tag::from_receivers : Tag::from_senders, offset);
      offset += bytes;
    }
  };
  // Messages to oneself are copied directly: the n-th send is the n-th receive.
  std::vector<std::int64_t> own_sends;
  std::vector<std::int64_t> own_receives;
  for_each([&](int peer, Tag mine, Tag theirs, std::int64_t offset) {
    if (peer == rank()) {
      (mine == Tag::from_senders ? own_sends : own_receives).push_back(offset);
    } else {
      transfers_.begin(part_number(taken++), peer, theirs, 0, bytes, received + offset, true);
    }
  });
  for (std::size_t i = 0; i < std::min(own_sends.size(), own_receives.size()); ++i) {
    std::copy_n(sent + own_sends[i], bytes, received + own_receives[i]);
    std::copy_n(sent + own_receives[i], bytes, received + own_sends[i]);
  }
  std::vector<bool> shown(messages.size());
  std::vector<bool> full(static_cast<std::size_t>(world()));
  // Shows as many as there is room for, repeatedly: the other side may have to take some first.
  auto const all = [&] {
    bool done = true;
    std::size_t i = 0;
    full.assign(full.size(), false);
    for_each([&](int peer, Tag mine, Tag /*theirs*/, std::int64_t offset) {
      auto const to = static_cast<std::size_t>(peer);
      shown[i] = shown[i] || peer == rank() || (!full[to] && transfers_.show_if_room(peer, mine, sent + offset, bytes));
      full[to] = !shown[i];
      done = done && shown[i++];
    });
    for (std::size_t k = 0; k < taken; ++k) {
      done = transfers_.has_come(part_number(k)) && done;
    }
    return done && transfers_.all_released(Tag::from_senders) && transfers_.all_released(Tag::from_receivers);
  };
  transfers_.wait(std::ref(all));
}

// ---- reductions -----------------------------------------------------------------------------------------------------

/// Each rank shows its blocks, and takes those of the others chunk by chunk. Requests are sent first: otherwise they
/// would queue after blocks that others have already requested.
void TcpCollectives::give_blocks(Blocks const& blocks) {
  for_others([&](int other) {
    if (blocks.receives(other)) {
      transfers_.show(other, Tag::blocks, blocks.block_for(other), blocks.bytes());
    }
  });
}

std::size_t TcpCollectives::index_of(Chunk const& chunk, int from) const noexcept {
  return static_cast<std::size_t>(chunk.slot) * others() +
         static_cast<std::size_t>((from - rank() + world()) % world() - 1);
}

void TcpCollectives::start(Blocks const& blocks, Chunk const& chunk) {
  receives_ = blocks.receives(rank());
  if (receives_) {
    for_others([&](int other) {
      transfers_.begin_to_borrow(part_number(index_of(chunk, other)), other, Tag::blocks, chunk.offset, chunk.bytes,
                                 chunk.place_of(other), chunk.last);
    });
  }
}

void TcpCollectives::await(Chunk const& chunk) {
  if (receives_) {
    await_parts(static_cast<std::size_t>(chunk.slot) * others(), others());
  }
}

std::byte const* TcpCollectives::part(Chunk const& chunk, int from) const {
  return Transfers::at(*parts_[index_of(chunk, from)]);
}

void TcpCollectives::release(Chunk const& chunk) {
  if (receives_) {
    for_others([&](int other) { transfers_.release(*parts_[index_of(chunk, other)]); });
  }
}

}  // namespace zeroth::comm
