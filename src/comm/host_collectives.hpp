// SPDX-License-Identifier: Apache-2.0
/// Collectives of the transports whose hosts do the work: what is folded when, whoever moves the bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// One transaction at a time, on the thread that the stream gives. A transport moves bytes, by the functions below, and
/// the folds are ours: every rank gets the raw blocks of all and folds them in rank order, so that the bits are those
/// of the local communicator.
class HostCollectives {
 public:
  /// Up to here it is cheaper that all ranks get everything and fold it themselves: one message time instead of two. It
  /// takes no staging. The sums of a step are no larger, with all metrics that an engine may have.
  static constexpr std::int64_t small_bytes = 2048;

  /// How a reduction is cut where its blocks are longer than that.
  struct Cut {
    std::int64_t most_part_bytes;  ///< Of one rank's block in a chunk.
    std::int64_t most_slots = 2;   ///< Chunks under way at a time.
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
  /// A reduction of blocks, one per receiver: receiver r gets the fold of everybody's block r.
  struct Blocks {
    std::byte const* input;  ///< This rank's blocks, `stride` bytes apart.
    std::byte* output;       ///< Of this rank's block, if it receives.
    std::int64_t stride;     ///< 0: there is one block, for `root`.
    std::int64_t count;      ///< Elements of one block.
    Reduce reduce;
    Dtype dtype;
    int root;                 ///< -1: every rank receives its block.
    float* sums = nullptr;    ///< Instead of `output`: see Collective.
    bool accumulate = false;  ///< Likewise.

    [[nodiscard]] std::int64_t bytes() const noexcept { return count * bytes_of(dtype); }
    [[nodiscard]] bool receives(int rank) const noexcept { return root < 0 || root == rank; }
    [[nodiscard]] std::byte const* block_for(int receiver) const noexcept { return input + receiver * stride; }
  };
  /// The same part of every block, which moves at a time.
  struct Chunk {
    std::int64_t offset, bytes;  ///< In a block.
    std::byte* landing;          ///< A place for every rank.
    std::int64_t place_bytes;
    int slot;   ///< From 0: which of those under way.
    bool last;  ///< Of its blocks.

    [[nodiscard]] std::byte* place_of(int from) const noexcept { return landing + from * place_bytes; }
  };

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world() const noexcept { return world_; }

 private:
  /// Runs a collective that folds nothing: a barrier, or one that moves at least one element.
  virtual void move(Collective const& collective) = 0;

  // For a reduction each chunk in order: start(), await(), its parts are folded where this rank receives, release(). As
  // many chunks are started at a time as there are slots: give_blocks() after the first of them, end_blocks() at last.
  /// Lets the others have this rank's blocks.
  virtual void give_blocks(Blocks const& /*blocks*/) {}
  /// Begins to bring `chunk` of what the others have for this rank, if it receives.
  virtual void start(Blocks const& blocks, Chunk const& chunk) = 0;
  virtual void await(Chunk const& chunk) = 0;
  /// Where that of rank `from` lies: at its place, or wherever the transport has it.
  [[nodiscard]] virtual std::byte const* part(Chunk const& chunk, int from) const { return chunk.place_of(from); }
  virtual void release(Chunk const& /*chunk*/) {}
  /// Waits until nobody needs this rank's blocks any more.
  virtual void end_blocks() {}

  class Chunks;
  void all_reduce(Collective const& collective, std::span<std::byte> staging);
  void all_reduce_small(std::byte const* input, std::byte* output, std::int64_t count, Reduce reduce, Dtype dtype);
  void fold_blocks(Blocks const& blocks, std::span<std::byte> staging);
  void fold(Blocks const& blocks, Chunk const& chunk);

  int rank_, world_;
  Cut cut_;
  std::vector<std::byte> small_;     // [world * small_bytes]
  std::vector<void const*> inputs_;  // [world], scratch of one fold
};

}  // namespace zeroth::comm
