// SPDX-License-Identifier: Apache-2.0
/// Collectives as non-blocking MPI operations.
#pragma once
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "comm/host_collectives.hpp"
#include "comm/mpi/mpi_thread.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// The MPI thread moves bytes; the calling thread waits and folds.
class MpiCollectives final : public HostCollectives {
 public:
  /// Messages between two ranks do not overtake each other on one communicator and tag.
  enum class Tag : int { chunks = 1, messages, from_senders, from_receivers };
  /// Waits until an operation is complete, or throws.
  using Await = std::function<void(MpiOperation const&)>;
  MpiCollectives(MpiThread& thread, MPI_Comm communicator, int rank, int world, Await await);

  void all_gather(void const* input, std::byte* output, std::int64_t bytes) override;
  /// Starts sends and receives, all at once, which must stay valid until await_messages() returns.
  void start_messages(std::span<Collective const> messages);
  void await_messages() { await_(messages_); }
  /// For each of `messages`, sender and receiver exchange `bytes`: from `sent`, into `received`.
  void exchange_with_peers(std::span<Collective const> messages, std::byte const* sent, std::byte* received,
                           std::int64_t bytes);

 private:
  template <class Begin>
  void once(Begin const& begin);
  void move(Collective const& collective) override;
  void start(Blocks const& blocks, Chunk const& chunk) override;
  void await(Chunk const& chunk) override { await_(operation_of(chunk)); }
  void broadcast(Collective const& collective);
  void gather(Collective const& collective);
  void scatter(Collective const& collective);
  void all_to_all(Collective const& collective);
  [[nodiscard]] MpiOperation& operation_of(Chunk const& chunk) noexcept {
    return operations_[static_cast<std::size_t>(chunk.slot)];
  }

  MpiThread& thread_;
  MPI_Comm communicator_;
  Await await_;
  std::array<MpiOperation, 2> operations_;  ///< Two, so that one chunk is received while another is folded.
  MpiOperation messages_;
};

}  // namespace zeroth::comm
