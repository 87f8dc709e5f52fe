// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/tcp_collectives.hpp"

#include <algorithm>
#include <functional>

#include "comm/staging.hpp"
#include "core/bytes_at.hpp"
#include "device/rank_fold.hpp"

namespace zeroth::comm {
namespace {

/// Up to here it is cheaper that all ranks get everything and add it up themselves: one message time instead of two.
constexpr std::int64_t inline_bytes = MemoryLanes::most_inline_bytes;
/// Of what lies in memory: a part of every rank, taken and summed before the caches lose it.
constexpr std::int64_t cached_bytes = 256 << 10;

}  // namespace

/// A reduction over ranks of blocks, one per receiver: receiver r gets the fold of everybody's block r.
struct TcpCollectives::Blocks {
  std::byte const* input;    ///< This rank's blocks, `stride` bytes apart.
  std::byte* output;         ///< Of this rank's block, if it receives.
  std::int64_t stride;       ///< 0: there is one block, for `root`.
  std::int64_t count;        ///< Elements of one block.
  std::int64_t chunk_count;  ///< Elements that are taken at a time.
  int halves;  ///< 2: two chunks are on their way at a time, each with a half of the staging. Otherwise 1.
  Reduce reduce;
  Dtype dtype;
  int root;  ///< -1: every rank receives its block.

  [[nodiscard]] std::int64_t chunks() const noexcept { return (count + chunk_count - 1) / chunk_count; }
  [[nodiscard]] std::int64_t first(std::int64_t chunk) const noexcept { return chunk * chunk_count; }
  [[nodiscard]] std::int64_t count_of(std::int64_t chunk) const noexcept {
    return std::min(chunk_count, count - first(chunk));
  }
  [[nodiscard]] std::int64_t bytes_of(std::int64_t elements) const noexcept {
    return elements * zeroth::bytes_of(dtype);
  }
  [[nodiscard]] bool receives(int rank) const noexcept { return root < 0 || root == rank; }
  /// Where rank `from`'s part of `chunk` lands. Each half of the staging has a place per rank.
  [[nodiscard]] std::byte* landing(std::span<std::byte> staging, std::int64_t chunk, int from, int world) const {
    return staging.data() + bytes_of((chunk % halves * world + from) * chunk_count);
  }
};

TcpCollectives::TcpCollectives(Transfers& transfers, int rank, int world)
    : transfers_{transfers},
      rank_{rank},
      world_{world},
      small_(static_cast<std::size_t>(world * inline_bytes)),
      inputs_(static_cast<std::size_t>(world)) {}

std::int64_t TcpCollectives::staging_for(Collective const& collective, int world) noexcept {
  switch (collective.operation) {
    case Operation::all_reduce:
      return collective.count * bytes_of(collective.dtype) <= inline_bytes
                 ? 0
                 : host_staging_bytes(world, collective.dtype, collective.count);
    case Operation::reduce: return host_staging_bytes(world, collective.dtype, collective.count);
    case Operation::reduce_scatter: return host_staging_bytes(world, collective.dtype, world * collective.count);
    default: return 0;
  }
}

template <class F>
void TcpCollectives::for_others(F const& function) const {
  for (int i = 1; i < world_; ++i) {
    function((rank_ + i) % world_);
  }
}

Transfers::Part& TcpCollectives::part(std::size_t index) {
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
      any_missing = !transfers_.has_come(part(i)) || any_missing;
      come = any_missing ? come : i + 1;
    }
    return !any_missing;
  };
  transfers_.wait(std::ref(all));
}

void TcpCollectives::await_letting_go() {
  auto const all = [&] { return transfers_.all_let_go(Tag::blocks); };
  transfers_.wait(std::ref(all));
}

void TcpCollectives::run(Collective const& collective, std::span<std::byte> staging) {
  std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
  auto const* const input = bytes_at(collective.input, 0);
  auto* const output = bytes_at(collective.output, 0);
  int const root = collective.peer;
  std::size_t taken = 0;
  auto const show = [&](int to, std::byte const* data) { transfers_.show(to, Tag::blocks, data, bytes); };
  auto const take = [&](int from, std::byte* to) {
    transfers_.begin(part(taken++), from, Tag::blocks, 0, bytes, to, true);
  };
  auto const copy = [&](std::byte* to, std::byte const* from) {
    if (to != from) {
      device::copy_bytes(to, from, bytes);
    }
  };
  if (collective.operation == Operation::barrier) {
    std::byte const mine{};
    return all_gather(&mine, small_.data(), 1);
  }
  if (collective.count == 0) {
    return;
  }
  switch (collective.operation) {
    case Operation::all_reduce: return all_reduce(collective, staging);
    case Operation::reduce_scatter:
      return fold_blocks({input, output, bytes, collective.count, 0, 1, collective.reduce, collective.dtype, -1},
                         staging);
    case Operation::reduce:
      return fold_blocks({input, output, 0, collective.count, 0, 1, collective.reduce, collective.dtype, root},
                         staging);
    case Operation::all_gather: return all_gather(input, output, bytes);
    case Operation::broadcast:
      if (rank_ == root) {
        for_others([&](int other) { show(other, input); });
        copy(output, input);
      } else {
        take(root, output);
      }
      break;
    case Operation::gather:
      if (rank_ == root) {
        for_others([&](int other) { take(other, output + other * bytes); });
        copy(output + rank_ * bytes, input);
      } else {
        show(root, input);
      }
      break;
    case Operation::scatter:
      if (rank_ == root) {
        for_others([&](int other) { show(other, input + other * bytes); });
        copy(output, input + rank_ * bytes);
      } else {
        take(root, output);
      }
      break;
    case Operation::all_to_all:
      for_others([&](int other) { take(other, output + other * bytes); });
      for_others([&](int other) { show(other, input + other * bytes); });
      copy(output + rank_ * bytes, input + rank_ * bytes);
      break;
    case Operation::send:
    case Operation::receive:
    case Operation::barrier: return;
  }
  await_parts(0, taken);
  await_letting_go();
}

void TcpCollectives::all_gather(void const* input, std::byte* output, std::int64_t bytes) {
  std::byte* const mine = output + rank_ * bytes;
  std::size_t taken = 0;
  for_others(
      [&](int other) { transfers_.begin(part(taken++), other, Tag::blocks, 0, bytes, output + other * bytes, true); });
  for_others([&](int other) { transfers_.show(other, Tag::blocks, input, bytes); });
  if (input != mine) {
    device::copy_bytes(mine, input, bytes);
  }
  await_parts(0, taken);
  await_letting_go();
}

void TcpCollectives::exchange_with_peers(std::span<Collective const> messages, std::byte const* said, std::byte* heard,
                                         std::int64_t bytes) {
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
  // To oneself as to others, without a way between: the n-th send is the n-th receive.
  std::vector<std::int64_t> own_sends;
  std::vector<std::int64_t> own_receives;
  for_each([&](int peer, Tag mine, Tag theirs, std::int64_t offset) {
    if (peer == rank_) {
      (mine == Tag::from_senders ? own_sends : own_receives).push_back(offset);
    } else {
      transfers_.begin(part(taken++), peer, theirs, 0, bytes, heard + offset, true);
    }
  });
  for (std::size_t i = 0; i < std::min(own_sends.size(), own_receives.size()); ++i) {
    std::copy_n(said + own_sends[i], bytes, heard + own_receives[i]);
    std::copy_n(said + own_receives[i], bytes, heard + own_sends[i]);
  }
  std::vector<bool> shown(messages.size());
  std::vector<bool> full(static_cast<std::size_t>(world_));
  // As many as find room, again and again: the other side may have to take some before there is more.
  auto const all = [&] {
    bool done = true;
    std::size_t i = 0;
    full.assign(full.size(), false);
    for_each([&](int peer, Tag mine, Tag /*theirs*/, std::int64_t offset) {
      auto const to = static_cast<std::size_t>(peer);
      shown[i] = shown[i] || peer == rank_ || (!full[to] && transfers_.show_if_room(peer, mine, said + offset, bytes));
      full[to] = !shown[i];
      done = done && shown[i++];
    });
    for (std::size_t k = 0; k < taken; ++k) {
      done = transfers_.has_come(part(k)) && done;
    }
    return done && transfers_.all_let_go(Tag::from_senders) && transfers_.all_let_go(Tag::from_receivers);
  };
  transfers_.wait(std::ref(all));
}

// ---- reductions -----------------------------------------------------------------------------------------------------

/// As many whole slices as there are ranks by reduce-scatter and all-gather; the few elements left over by the way of
/// small ones.
void TcpCollectives::all_reduce(Collective const& collective, std::span<std::byte> staging) {
  std::int64_t const element = bytes_of(collective.dtype);
  bool const small = collective.count * element <= inline_bytes;
  std::int64_t const slice = small ? 0 : collective.count / world_;
  if (slice > 0) {
    std::byte* const mine = bytes_at(collective.output, rank_ * slice * element);
    fold_blocks(
        {bytes_at(collective.input, 0), mine, slice * element, slice, 0, 1, collective.reduce, collective.dtype, -1},
        staging);
    all_gather(mine, bytes_at(collective.output, 0), slice * element);
  }
  std::int64_t const step = inline_bytes / element;
  for (std::int64_t first = slice * world_; first < collective.count; first += step) {
    all_reduce_small(bytes_at(collective.input, first * element), bytes_at(collective.output, first * element),
                     std::min(step, collective.count - first), collective.reduce, collective.dtype);
  }
}

void TcpCollectives::all_reduce_small(std::byte const* input, std::byte* output, std::int64_t count, Reduce reduce,
                                      Dtype dtype) {
  std::int64_t const bytes = count * bytes_of(dtype);
  all_gather(input, small_.data(), bytes);
  for (int rank = 0; rank < world_; ++rank) {
    inputs_[static_cast<std::size_t>(rank)] = small_.data() + rank * bytes;
  }
  void* const outputs = output;
  device::rank_fold(reduce, &outputs, 1, inputs_.data(), world_, dtype, 0, count);
}

/// Each rank shows its blocks, and takes those of the others chunk by chunk, as the staging allows.
void TcpCollectives::fold_blocks(Blocks const& blocks, std::span<std::byte> staging) {
  for_others([&](int other) {
    if (blocks.receives(other)) {
      transfers_.show(other, Tag::blocks, blocks.input + other * blocks.stride, blocks.bytes_of(blocks.count));
    }
  });
  if (blocks.receives(rank_)) {
    Blocks chunked = blocks;
    std::int64_t const full_count = blocks.root < 0 ? world_ * blocks.count : blocks.count;
    std::int64_t const place_count = host_staging_bytes(world_, blocks.dtype, full_count) / blocks.bytes_of(world_);
    std::int64_t const most = transfers_.within_memory() ? cached_bytes / world_ / blocks.bytes_of(1) : blocks.count;
    if (world_ == 1 || blocks.count <= std::min(place_count, most)) {
      chunked.chunk_count = blocks.count;
    } else {
      chunked.halves = place_count > 1 ? 2 : 1;
      chunked.chunk_count = std::clamp(most, std::int64_t{1}, place_count / chunked.halves);
    }
    std::int64_t const chunks = chunked.chunks();
    for (std::int64_t chunk = 0; chunk < std::min(chunks, std::int64_t{chunked.halves}); ++chunk) {
      begin_chunk(chunked, staging, chunk);
    }
    auto const others = static_cast<std::size_t>(world_ - 1);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      await_parts(static_cast<std::size_t>(chunk % chunked.halves) * others, others);
      fold_chunk(chunked, staging, chunk);
      if (chunk + chunked.halves < chunks) {
        begin_chunk(chunked, staging, chunk + chunked.halves);
      }
    }
  }
  await_letting_go();
}

void TcpCollectives::begin_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk) {
  auto index = static_cast<std::size_t>(chunk % blocks.halves * (world_ - 1));
  for_others([&](int other) {
    transfers_.begin(part(index++), other, Tag::blocks, blocks.bytes_of(blocks.first(chunk)),
                     blocks.bytes_of(blocks.count_of(chunk)), blocks.landing(staging, chunk, other, world_),
                     chunk + 1 == blocks.chunks());
  });
}

void TcpCollectives::fold_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk) {
  std::int64_t const offset = blocks.bytes_of(blocks.first(chunk));
  for (int from = 0; from < world_; ++from) {
    inputs_[static_cast<std::size_t>(from)] =
        from == rank_ ? blocks.input + rank_ * blocks.stride + offset : blocks.landing(staging, chunk, from, world_);
  }
  void* const output = blocks.output + offset;
  device::rank_fold(blocks.reduce, &output, 1, inputs_.data(), world_, blocks.dtype, 0, blocks.count_of(chunk));
}

}  // namespace zeroth::comm
