// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/tcp_communicator.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/page_memory.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// A rank's part of the memory that all ranks register.
struct MemoryPlace {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  SharedFile file;
};

/// A registration of PeerWindows. Its destructor ends it.
class KnownMemory final : public Registration {
 public:
  KnownMemory(std::shared_ptr<SharedQueues> queues, std::uint32_t number)
      : queues_{std::move(queues)}, number_{number} {}
  ~KnownMemory() override { queues_->windows().end(number_); }

 private:
  std::shared_ptr<SharedQueues> queues_;
  std::uint32_t number_;
};

}  // namespace

std::unique_ptr<Communicator> make_tcp(std::shared_ptr<TcpSession> session, CommOptions const& options) {
  auto group = whole_job(session->next_job(), session->rank(), session->world());
  auto queues = session->share_queues(group, options.timeout);
  return std::make_unique<TcpCommunicator>(std::move(session), std::move(group), std::move(queues), options);
}

TcpCommunicator::TcpCommunicator(std::shared_ptr<TcpSession> session, Group group, std::shared_ptr<SharedQueues> queues,
                                 CommOptions const& options)
    : HostCommunicator{*session, group, options},
      session_{std::move(session)},
      group_{std::move(group)},
      queues_{std::move(queues)},
      transfers_{*session_, group_, queues_, [this](Transfers::WaitUntil const& wait_until) { await(wait_until); }},
      collectives_{transfers_, rank(), world()} {}

void TcpCommunicator::await_messages() {
  auto const done = [&] { return transfers_.messages_done(); };
  transfers_.wait(std::ref(done));
}

std::unique_ptr<Communicator> TcpCommunicator::make_part(SplitRequest const& /*request*/, Group part) {
  return part.job_ranks.empty() ? nullptr : make_group({}, std::move(part));
}

std::unique_ptr<Communicator> TcpCommunicator::make_group(std::span<int const> /*ranks*/, Group part) {
  auto queues = session_->share_queues(part, options().timeout);
  return std::make_unique<TcpCommunicator>(session_, std::move(part), std::move(queues), options());
}

std::unique_ptr<Registration> TcpCommunicator::make_known(device::Memory const& memory) {
  auto const* const pages = dynamic_cast<device::PageMemory const*>(&memory);
  ZEROTH_EXPECTS(pages != nullptr, "a communicator over tcp was given memory of another device to register");
  MemoryPlace const mine{reinterpret_cast<std::uint64_t>(memory.data()), memory.bytes(), describe_file(pages->file())};
  std::vector<MemoryPlace> all(static_cast<std::size_t>(world()));
  exchange(&mine, all.data(), sizeof mine);
  auto& windows = queues_->windows();
  std::uint32_t const number = windows.begin(mine.address, mine.bytes);
  auto known = std::make_unique<KnownMemory>(queues_, number);
  auto const members = session_->members_here(group_);
  for (std::size_t member = 0; member < members.size(); ++member) {
    if (int const rank = members[member]; rank != this->rank()) {
      auto const& place = all[static_cast<std::size_t>(rank)];
      windows.open(number, static_cast<int>(member), place.file, place.address, place.bytes);
    }
  }
  std::byte const done{};  // after this exchange the owners may close the files
  std::vector<std::byte> all_done(all.size());
  exchange(&done, all_done.data(), 1);
  return known;
}

}  // namespace zeroth::comm
