// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/uneven.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <limits>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// The blocks of one list, in memory one after another.
class Blocks {
 public:
  /// `call` and `list` are for messages.
  Blocks(Communicator const& of, char const* call, char const* list, std::span<std::int64_t const> counts, Dtype dtype)
      : counts_{counts}, dtype_{dtype} {
    auto const say = [&](std::string const& what) {
      return fmt::format("{} on communicator '{}': {} {}", call, of.name(), list, what);
    };
    auto const bytes = bytes_of(dtype);
    ZEROTH_EXPECTS(bytes > 0,
                   fmt::format("{} on communicator '{}': unknown dtype {}", call, of.name(), static_cast<int>(dtype)));
    ZEROTH_EXPECTS(std::ssize(counts) == of.world(),
                   say(fmt::format("has {} numbers; needed are {}, one for each rank", counts.size(), of.world())));
    auto left = std::numeric_limits<std::int64_t>::max() / bytes;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      offsets_.push_back(static_cast<std::size_t>(end_ * bytes));
      ZEROTH_EXPECTS(counts[rank] >= 0 && counts[rank] <= left,
                     say(fmt::format("[{}] is {}; allowed are 0 to {}", rank, counts[rank], left)));
      left -= counts[rank];
      end_ += counts[rank];
    }
  }

  /// Block `rank` of the memory at `base`; null if `base` is.
  template <class Byte>
  [[nodiscard]] Byte* at(Byte* base, int rank) const noexcept {
    return base == nullptr ? nullptr : base + offsets_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Collective send(void const* base, int rank) const noexcept {
    return send_whole(at(static_cast<std::byte const*>(base), rank), rank, rank);
  }
  [[nodiscard]] Collective receive(void* base, int rank) const noexcept {
    return receive_whole(at(static_cast<std::byte*>(base), rank), rank, rank);
  }
  /// Block `rank`, which is at `block`, to the rank `to`.
  [[nodiscard]] Collective send_whole(void const* block, int rank, int to) const noexcept {
    return {Operation::send, block, nullptr, count(rank), dtype_, to};
  }
  [[nodiscard]] Collective receive_whole(void* block, int rank, int from) const noexcept {
    return {Operation::receive, nullptr, block, count(rank), dtype_, from};
  }
  [[nodiscard]] std::int64_t count(int rank) const noexcept { return counts_[static_cast<std::size_t>(rank)]; }

 private:
  std::span<std::int64_t const> counts_;
  Dtype dtype_;
  std::vector<std::size_t> offsets_;  // in bytes
  std::int64_t end_ = 0;
};

void expect_root(Communicator const& of, char const* call, int root) {
  ZEROTH_EXPECTS(root >= 0 && root < of.world(), fmt::format("{} on communicator '{}': root is {}; allowed are 0 to {}",
                                                             call, of.name(), root, of.world() - 1));
}

/// The messages between `root` and every rank: `with(rank)` is the root's side, and `own()` that of each rank. A root
/// whose block is `in_place` has no message with itself.
template <class With, class Own>
std::vector<Collective> rooted(Communicator const& of, int root, bool in_place, With const& with, Own const& own) {
  std::vector<Collective> messages;
  if (!in_place) {
    messages.push_back(own());
  }
  for (int rank = 0; of.rank() == root && rank < of.world(); ++rank) {
    if (rank != root || !in_place) {
      messages.push_back(with(rank));
    }
  }
  return messages;
}

}  // namespace

std::vector<Collective> all_to_all_v(Communicator const& of, void const* input,
                                     std::span<std::int64_t const> send_counts, void* output,
                                     std::span<std::int64_t const> receive_counts, Dtype dtype) {
  Blocks const sent{of, "all_to_all_v", "send_counts", send_counts, dtype};
  Blocks const received{of, "all_to_all_v", "receive_counts", receive_counts, dtype};
  std::vector<Collective> messages;
  for (int rank = 0; rank < of.world(); ++rank) {
    messages.push_back(sent.send(input, rank));
    messages.push_back(received.receive(output, rank));
  }
  return messages;
}

std::vector<Collective> all_gather_v(Communicator const& of, void const* input, void* output,
                                     std::span<std::int64_t const> counts, Dtype dtype) {
  Blocks const blocks{of, "all_gather_v", "counts", counts, dtype};
  int const me = of.rank();
  bool const in_place = input == blocks.at(static_cast<std::byte*>(output), me);
  std::vector<Collective> messages;
  for (int rank = 0; rank < of.world(); ++rank) {
    if (rank != me || !in_place) {
      messages.push_back(blocks.send_whole(input, me, rank));
      messages.push_back(blocks.receive(output, rank));
    }
  }
  return messages;
}

std::vector<Collective> gather_v(Communicator const& of, void const* input, void* output,
                                 std::span<std::int64_t const> counts, Dtype dtype, int root) {
  Blocks const blocks{of, "gather_v", "counts", counts, dtype};
  expect_root(of, "gather_v", root);
  bool const is_root = of.rank() == root;
  bool const in_place = is_root && input == blocks.at(static_cast<std::byte*>(output), root);
  return rooted(
      of, root, in_place, [&](int rank) { return blocks.receive(output, rank); },
      [&] { return blocks.send_whole(input, of.rank(), root); });
}

std::vector<Collective> scatter_v(Communicator const& of, void const* input, void* output,
                                  std::span<std::int64_t const> counts, Dtype dtype, int root) {
  Blocks const blocks{of, "scatter_v", "counts", counts, dtype};
  expect_root(of, "scatter_v", root);
  bool const is_root = of.rank() == root;
  bool const in_place = is_root && output == blocks.at(static_cast<std::byte const*>(input), root);
  return rooted(
      of, root, in_place, [&](int rank) { return blocks.send(input, rank); },
      [&] { return blocks.receive_whole(output, of.rank(), root); });
}

std::vector<Collective> reduce_scatter_v(Communicator const& of, void const* input, void* output,
                                         std::span<std::int64_t const> counts, Dtype dtype, Reduce reduce,
                                         double factor) {
  Blocks const blocks{of, "reduce_scatter_v", "counts", counts, dtype};
  std::vector<Collective> reductions;
  for (int rank = 0; rank < of.world(); ++rank) {
    Collective one{Operation::reduce,
                   blocks.at(static_cast<std::byte const*>(input), rank),
                   rank == of.rank() ? output : nullptr,
                   blocks.count(rank),
                   dtype,
                   rank};
    one.reduce = reduce;
    one.factor = factor;
    reductions.push_back(one);
  }
  return reductions;
}

}  // namespace zeroth::comm
