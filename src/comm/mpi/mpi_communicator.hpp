// SPDX-License-Identifier: Apache-2.0
/// The mpi backend: ranks are processes.
#pragma once
#include <mpi.h>

#include <memory>
#include <span>

#include "comm/host_communicator.hpp"
#include "comm/mpi/mpi_collectives.hpp"
#include "comm/mpi/mpi_session.hpp"

namespace zeroth::comm {

/// Makes a communicator of all ranks of the job. Collective over all ranks.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi(std::shared_ptr<MpiSession> session,
                                                     CommOptions const& options = {});

/// The stream's thread splits a transaction into operations and reduces; the MPI thread moves bytes.
class MpiCommunicator final : public HostCommunicator {
 public:
  /// Owns `handle`, whose ranks are those of `group`.
  MpiCommunicator(std::shared_ptr<MpiSession> session, MPI_Comm handle, Group group, CommOptions const& options);
  ~MpiCommunicator() override;

  [[nodiscard]] Transport transport() const noexcept override { return Transport::mpi; }

 private:
  [[nodiscard]] std::int64_t staging_for(Collective const& collective) const noexcept override {
    return HostCollectives::staging_for(collective, world());
  }
  void exchange(void const* mine, void* all, std::int64_t bytes) override {
    collectives_.all_gather(mine, static_cast<std::byte*>(all), bytes);
  }
  void exchange_with_peers(std::span<Collective const> messages, std::byte const* sent, std::byte* received,
                           std::int64_t bytes) override {
    collectives_.exchange_with_peers(messages, sent, received, bytes);
  }
  void run(Collective const& collective, std::span<std::byte> staging) override {
    collectives_.run(collective, staging);
  }
  void start_messages(std::span<Collective const> messages) override { collectives_.start_messages(messages); }
  void await_messages() override { collectives_.await_messages(); }
  [[nodiscard]] std::unique_ptr<Communicator> make_part(SplitRequest const& request, Group part) override;
  [[nodiscard]] std::unique_ptr<Communicator> make_group(std::span<int const> ranks, Group part) override;

  std::shared_ptr<MpiSession> session_;
  MPI_Comm handle_;
  MpiCollectives collectives_;
};

}  // namespace zeroth::comm
