// SPDX-License-Identifier: Apache-2.0
/// One rank's share of the work of a collective among threads, done directly in all ranks' memory.
#pragma once
#include <span>
#include <vector>

#include "device/peer_stream.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// The shares of all ranks together are the collective. No two write the same memory, and none writes memory that
/// another one reads, so they run concurrently: at once on the calling threads, or as work of GPU streams.
class LocalShare {
 public:
  LocalShare(int rank, int world);
  /// `all[r]` is the collective as rank r submitted it, with the same operation, count, dtype and root everywhere.
  /// `stream` is this rank's stream, for sum reductions only; if null, the work is done on return.
  void run(std::span<Collective const* const> all, device::PeerStream* stream);

 private:
  void reduce(std::span<Collective const* const> all);
  void gather_blocks(std::span<Collective const* const> all);
  void exchange_blocks(std::span<Collective const* const> all);
  void broadcast(std::span<Collective const* const> all);
  void fold(Collective const& mine, void* const* outputs, int output_count, std::int64_t first,
            std::int64_t count) const;
  void copy(void* destination, void const* source, std::int64_t bytes) const;
  void copy_to_all(std::span<void* const> destinations, void const* source, std::int64_t bytes) const;

  int rank_, world_;
  // scratch of one call
  device::PeerStream* stream_ = nullptr;
  std::vector<void const*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace zeroth::comm
