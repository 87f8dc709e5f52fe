// SPDX-License-Identifier: Apache-2.0
/// Collectives as non-blocking MPI operations, and the folds between them.
#pragma once
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/mpi/mpi_thread.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// One transaction at a time, on the thread that the stream gives. MPI moves bytes and the folds are ours: every rank
/// gets the raw blocks of all and folds them in rank order, so that the bits are those of the local communicator.
class MpiCollectives {
 public:
  /// Messages between two ranks do not overtake each other on one communicator and tag.
  enum class Tag : int { chunks = 1, messages, from_senders, from_receivers };
  /// Waits until an operation is over, or throws.
  using Await = std::function<void(MpiOperation const&)>;
  MpiCollectives(MpiThread& thread, MPI_Comm communicator, int rank, int world, Await await);

  /// Bytes of staging that `collective` needs.
  [[nodiscard]] static std::int64_t staging_for(Collective const& collective, int world) noexcept;

  /// Runs one collective of all ranks.
  void run(Collective const& collective, std::span<std::byte> staging);
  /// Starts sends and receives, all at once, which must live until await_messages().
  void start_messages(std::span<Collective const> messages);
  void await_messages() { await_(messages_); }
  /// For each of `messages`, whoever sends or receives it tells the other side `bytes`, and hears as much.
  void exchange_with_peers(std::span<Collective const> messages, std::byte const* said, std::byte* heard,
                           std::int64_t bytes);
  /// Gathers `bytes` of every rank, small, in rank order.
  void exchange(void const* mine, void* all, std::int64_t bytes);

 private:
  struct Blocks;

  template <class Begin>
  void once(Begin const& begin);
  void all_reduce(Collective const& collective, std::span<std::byte> staging);
  void all_reduce_small(std::byte const* input, std::byte* output, std::int64_t count, Reduce reduce, Dtype dtype);
  void all_gather(void const* input, std::byte* output, std::int64_t bytes);
  void broadcast(Collective const& collective);
  void gather(Collective const& collective);
  void scatter(Collective const& collective);
  void fold_blocks(Blocks const& blocks, std::span<std::byte> staging);
  void start_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk);
  void fold_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk);

  MpiThread& thread_;
  MPI_Comm communicator_;
  int rank_, world_;
  Await await_;
  std::array<MpiOperation, 2> operations_;  ///< Two, so that one chunk is on its way while another is summed.
  MpiOperation messages_;
  std::vector<std::byte> small_;     // [world * small_bytes]
  std::vector<void const*> inputs_;  // [world], scratch of one sum
};

}  // namespace zeroth::comm
