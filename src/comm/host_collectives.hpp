// SPDX-License-Identifier: Apache-2.0
/// Collectives of the transports whose hosts do the work. The order of folds does not depend on the transport that
/// moves the bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// One transaction at a time, on the stream's thread. A transport moves bytes with the functions below; this class
/// folds. A receiving rank gets the raw blocks of all ranks and folds them in rank order, so the bits are those of the
/// local communicator.
class HostCollectives {
 public:
  /// Up to this size, all-gather plus a local reduction is faster: one message latency instead of two. It needs no
  /// staging. The sums of a step are no larger, with all metrics that an engine may have.
  static constexpr std::int64_t small_bytes = 2048;

  /// How a reduction of longer blocks is cut.
  struct Cut {
    std::int64_t most_part_bytes;  ///< Part of one rank's block in a chunk.
    std::int64_t most_slots = 2;   ///< Chunks in flight at a time.
  };
  HostCollectives(int rank, int world, Cut cut);
  HostCollectives(HostCollectives const&) = delete;
  HostCollectives& operator=(HostCollectives const&) = delete;
  virtual ~HostCollectives() = default;

  /// Bytes of staging that `collective` needs.
  [[nodiscard]] static std::int64_t staging_for(Collective const& collective, int world) noexcept;
  /// Runs one collective of all ranks.
  void run(Collective const& collective, std::span<std::byte> staging);
  /// Gathers `bytes` of every rank in rank order.
  virtual void all_gather(void const* input, std::byte* output, std::int64_t bytes) = 0;

 protected:
  /// A reduction of blocks, one per receiver: receiver r gets the fold of every rank's block r.
  struct Blocks {
    std::byte const* input;  ///< This rank's blocks, `stride` bytes apart.
    std::byte* output;       ///< For this rank's block, if it receives.
    std::int64_t stride;     ///< 0: there is one block, for `root`.
    std::int64_t count;      ///< Elements of one block.
    Reduce reduce;
    Dtype dtype;
    int root;                 ///< -1: every rank receives its block.
    float* sums = nullptr;    ///< Instead of `output`: see Collective.
    bool accumulate = false;  ///< For `sums`: see Collective.
    double factor = 1;        ///< For Reduce::premul_sum.

    [[nodiscard]] std::int64_t bytes() const noexcept { return count * bytes_of(dtype); }
    [[nodiscard]] bool receives(int rank) const noexcept { return root < 0 || root == rank; }
    [[nodiscard]] std::byte const* block_for(int receiver) const noexcept { return input + receiver * stride; }
  };
  /// The same part of every block; chunks move one after another.
  struct Chunk {
    std::int64_t offset, bytes;  ///< In a block.
    std::byte* landing;          ///< A place for every rank.
    std::int64_t place_bytes;
    int slot;   ///< From 0: the index among those in flight.
    bool last;  ///< The last one of its blocks.

    [[nodiscard]] std::byte* place_of(int from) const noexcept { return landing + from * place_bytes; }
  };

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world() const noexcept { return world_; }

 private:
  /// Runs a collective that folds nothing: a barrier, or one that moves at least one element.
  virtual void move(Collective const& collective) = 0;

  // A reduction calls for each chunk in order: start(), await(), the fold if this rank receives, release(). As many
  // chunks are started at a time as there are slots. give_blocks() follows the first start(), and end_blocks() comes
  // last.
  /// Makes this rank's blocks available to the others.
  virtual void give_blocks(Blocks const& /*blocks*/) {}
  /// Starts to receive `chunk` of the others' blocks for this rank, if it receives.
  virtual void start(Blocks const& blocks, Chunk const& chunk) = 0;
  virtual void await(Chunk const& chunk) = 0;
  /// The address of rank `from`'s part: its place, or wherever the transport has it.
  [[nodiscard]] virtual std::byte const* part(Chunk const& chunk, int from) const { return chunk.place_of(from); }
  virtual void release(Chunk const& /*chunk*/) {}
  /// Waits until no rank needs this rank's blocks any more.
  virtual void end_blocks() {}

  class Chunks;
  void all_reduce(Collective const& collective, std::span<std::byte> staging);
  /// Elements [first, first + count) of an all-reduce.
  void all_reduce_small(Collective const& collective, std::int64_t first, std::int64_t count);
  void fold_blocks(Blocks const& blocks, std::span<std::byte> staging);
  void fold(Blocks const& blocks, Chunk const& chunk);

  int rank_, world_;
  Cut cut_;
  std::vector<std::byte> small_;     // [world * small_bytes]
  std::vector<void const*> inputs_;  // [world], scratch of one fold
};

}  // namespace zeroth::comm
