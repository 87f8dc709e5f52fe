// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/tcp_communicator.hpp"

#include <functional>
#include <utility>

namespace zeroth::comm {

std::unique_ptr<Communicator> make_tcp(std::shared_ptr<TcpSession> session, CommOptions const& options) {
  auto group = whole_job(session->next_job(), session->rank(), session->world());
  auto lanes = session->share_lanes(group, options.timeout);
  return std::make_unique<TcpCommunicator>(std::move(session), std::move(group), std::move(lanes), options);
}

TcpCommunicator::TcpCommunicator(std::shared_ptr<TcpSession> session, Group group, std::shared_ptr<MemoryLanes> lanes,
                                 CommOptions const& options)
    : HostCommunicator{*session, group, options},
      session_{std::move(session)},
      group_{std::move(group)},
      transfers_{*session_, group_, std::move(lanes),
                 [this](Transfers::WaitUntil const& wait_until) { await(wait_until); }},
      collectives_{transfers_, rank(), world()} {}

void TcpCommunicator::await_messages() {
  auto const done = [&] { return transfers_.messages_done(); };
  transfers_.wait(std::ref(done));
}

std::unique_ptr<Communicator> TcpCommunicator::make_part(SplitRequest const& /*request*/, Group part) {
  if (part.job_ranks.empty()) {
    return nullptr;
  }
  auto lanes = session_->share_lanes(part, options().timeout);
  return std::make_unique<TcpCommunicator>(session_, std::move(part), std::move(lanes), options());
}

}  // namespace zeroth::comm
