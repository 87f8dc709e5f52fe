// SPDX-License-Identifier: Apache-2.0
/// Collectives as what ranks show each other and take, and the folds between.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/tcp/transfers.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// One transaction at a time. Every rank takes the blocks of all others and folds them in rank order, so that the bits
/// are those of the local communicator.
class TcpCollectives {
 public:
  TcpCollectives(Transfers& transfers, int rank, int world);

  /// Bytes of staging that `collective` needs.
  [[nodiscard]] static std::int64_t staging_for(Collective const& collective, int world) noexcept;
  void run(Collective const& collective, std::span<std::byte> staging);
  /// For each of `messages`, whoever sends or receives it tells the other side `bytes`, and hears as much.
  void exchange_with_peers(std::span<Collective const> messages, std::byte const* said, std::byte* heard,
                           std::int64_t bytes);
  void all_gather(void const* input, std::byte* output, std::int64_t bytes);

 private:
  struct Blocks;
  void all_reduce(Collective const& collective, std::span<std::byte> staging);
  void all_reduce_small(std::byte const* input, std::byte* output, std::int64_t count, Reduce reduce, Dtype dtype);
  void fold_blocks(Blocks const& blocks, std::span<std::byte> staging);
  void begin_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk);
  void fold_chunk(Blocks const& blocks, std::span<std::byte> staging, std::int64_t chunk);
  void await_parts(std::size_t first, std::size_t count);
  void await_letting_go();
  /// Calls `function(other)` for all other ranks; each rank begins elsewhere.
  template <class F>
  void for_others(F const& function) const;
  [[nodiscard]] Transfers::Part& part(std::size_t index);

  Transfers& transfers_;
  int rank_, world_;
  std::vector<std::unique_ptr<Transfers::Part>> parts_;  // used again
  std::vector<std::byte> small_;                         // [world * inline_bytes]
  std::vector<void const*> inputs_;                      // [world], scratch of one fold
};

}  // namespace zeroth::comm
