// SPDX-License-Identifier: Apache-2.0
/// Collectives by showing data to other ranks and taking theirs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/host_collectives.hpp"
#include "comm/tcp/transfers.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

class TcpCollectives final : public HostCollectives {
 public:
  TcpCollectives(Transfers& transfers, int rank, int world);

  void all_gather(void const* input, std::byte* output, std::int64_t bytes) override;
  /// For each of `messages`, sender and receiver exchange `bytes`: from `sent`, into `received`.
  void exchange_with_peers(std::span<Collective const> messages, std::byte const* sent, std::byte* received,
                           std::int64_t bytes);

 private:
  void move(Collective const& collective) override;
  void give_blocks(Blocks const& blocks) override;
  void start(Blocks const& blocks, Chunk const& chunk) override;
  void await(Chunk const& chunk) override;
  [[nodiscard]] std::byte const* part(Chunk const& chunk, int from) const override;
  void release(Chunk const& chunk) override;
  void end_blocks() override { await_releases(); }
  void await_parts(std::size_t first, std::size_t count);
  void await_releases();
  /// Calls `function(other)` for all other ranks; each rank starts at another one.
  template <class F>
  void for_others(F const& function) const;
  [[nodiscard]] Transfers::Part& part_number(std::size_t index);
  /// The index of rank `from`'s part of `chunk`.
  [[nodiscard]] std::size_t index_of(Chunk const& chunk, int from) const noexcept;
  [[nodiscard]] std::size_t others() const noexcept { return static_cast<std::size_t>(world() - 1); }

  Transfers& transfers_;
  bool receives_ = false;                                // in the running reduction
  std::vector<std::unique_ptr<Transfers::Part>> parts_;  // reused
  std::vector<std::byte> met_;                           // [world], gathered by a barrier
};

}  // namespace zeroth::comm
