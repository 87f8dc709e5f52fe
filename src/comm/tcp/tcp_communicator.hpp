// SPDX-License-Identifier: Apache-2.0
/// The tcp backend: ranks are processes that need no MPI.
#pragma once
#include <memory>
#include <span>

#include "comm/host_communicator.hpp"
#include "comm/tcp/tcp_collectives.hpp"
#include "comm/tcp/tcp_session.hpp"
#include "comm/tcp/transfers.hpp"

namespace zeroth::comm {

/// Makes a communicator of all ranks of the job. Collective over all ranks.
[[nodiscard]] std::unique_ptr<Communicator> make_tcp(std::shared_ptr<TcpSession> session,
                                                     CommOptions const& options = {});

class TcpCommunicator final : public HostCommunicator {
 public:
  TcpCommunicator(std::shared_ptr<TcpSession> session, Group group, std::shared_ptr<SharedQueues> queues,
                  CommOptions const& options);
  ~TcpCommunicator() override { end(); }

  [[nodiscard]] Transport transport() const noexcept override { return Transport::tcp; }

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
    transfers_.expect(&collective);
    collectives_.run(collective, staging);
    transfers_.expect(nullptr);
  }
  void start_messages(std::span<Collective const> messages) override { transfers_.start_messages(messages); }
  void await_messages() override;
  [[nodiscard]] std::unique_ptr<Communicator> make_part(SplitRequest const& request, Group part) override;
  [[nodiscard]] std::unique_ptr<Communicator> make_group(std::span<int const> ranks, Group part) override;
  [[nodiscard]] bool wants_memory() const noexcept override { return session_->any_share_memory(); }
  [[nodiscard]] std::unique_ptr<Registration> make_known(device::Memory const& memory) override;

  std::shared_ptr<TcpSession> session_;
  Group group_;
  std::shared_ptr<SharedQueues> queues_;
  Transfers transfers_;
  TcpCollectives collectives_;
};

}  // namespace zeroth::comm
