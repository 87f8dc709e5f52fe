// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/rank_error.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::int64_t most_bytes_at_a_time = 4000;  // limit of one gather of the store

}  // namespace

NcclAgreement::NcclAgreement(NcclSession& session, NcclLink const& link)
    : session_{session},
      link_{link},
      agreement_{link.world()},
      sent_(link.identity.group.job_ranks.size()),
      received_(link.identity.group.job_ranks.size()) {}

std::string NcclAgreement::about_to_enter(Transaction const& transaction) const {
  auto const& group = link_.identity.group;
  return fmt::format("{} was about to enter {}", group.describe_rank(group.rank), describe_on(link_, transaction));
}

template <class Wait>
auto NcclAgreement::in_time(Transaction const& transaction, Wait const& wait) {
  auto const begun = Clock::now();
  try {
    return wait();
  } catch (PeerError const& error) {
    if (auto const failure = session_.rendezvous().store().failure()) {
      throw PeerError{fmt::format("{}; {}", failure->reason, about_to_enter(transaction))};
    }
    // The error type decides, not this rank's clock: the first rank's timeout also ends a gather for ranks that came
    // later.
    if (dynamic_cast<LateError const*>(&error) == nullptr) {
      session_.fail_and_throw(fmt::format("{}; {}", describe_current_exception().bare, about_to_enter(transaction)));
    }
  }
  session_.fail_and_throw(session_.explain_late(link_, transaction, begun));
}

void NcclAgreement::agree(Transaction const& transaction) {
  if (transaction.is_of_all()) {
    compare(transaction, {});
  }
}

std::vector<SplitRequest> NcclAgreement::agree_to_split(Transaction const& transaction, SplitRequest const& request) {
  compare(transaction, request);
  return agreement_.requests();
}

void NcclAgreement::compare(Transaction const& transaction, SplitRequest const& request) {
  auto const disagreement = agreement_.compare(
      link_.identity.group, transaction, request,
      [&](void const* mine, void* all, std::int64_t bytes) { exchange(transaction, mine, all, bytes); });
  if (!disagreement.empty()) {
    session_.fail_and_throw(disagreement);
  }
}

void NcclAgreement::exchange(Transaction const& transaction, void const* mine, void* all, std::int64_t bytes) {
  auto const& group = link_.identity.group;
  auto const place = fmt::format("{:016x} agree", group.id);
  for (std::int64_t at = 0; at < bytes; at += most_bytes_at_a_time) {
    auto const count = static_cast<std::size_t>(std::min(most_bytes_at_a_time, bytes - at));
    std::string const value{static_cast<char const*>(mine) + at, count};
    auto const values =
        in_time(transaction, [&] { return session_.gather(place, group.job_ranks, value, transaction.timeout); });
    for (int rank = 0; rank < group.world(); ++rank) {
      auto const& each = values[static_cast<std::size_t>(rank)];
      ZEROTH_EXPECTS(each.size() == count, fmt::format("rank {} brought {} bytes of {}", rank, each.size(), count));
      std::memcpy(static_cast<std::byte*>(all) + rank * bytes + at, each.data(), count);
    }
  }
}

void NcclAgreement::compare_messages(Transaction const& transaction) {
  struct Side {
    std::string key;  ///< The key of the partner's description.
    Collective const* message;
  };
  std::vector<Side> sides;
  auto const& group = link_.identity.group;
  auto& store = session_.rendezvous().store();
  for (auto const& each : transaction.messages) {
    bool const sends = each.operation == Operation::send;
    auto const number = (sends ? sent_ : received_)[static_cast<std::size_t>(each.peer)]++;
    auto const key = [&](char const* side) {
      return fmt::format("nccl {:016x} {} to {} #{} {}", group.id, sends ? group.rank : each.peer,
                         sends ? each.peer : group.rank, number, side);
    };
    std::vector<std::byte> outline(message_outline_bytes());
    write_message_outline(transaction, each, outline);
    in_time(transaction, [&] {
      store.set_for(1, key(sends ? "sent" : "received"),
                    {reinterpret_cast<char const*>(outline.data()), outline.size()});
      return true;
    });
    sides.push_back({key(sends ? "received" : "sent"), &each});
  }
  for (auto const& side : sides) {
    auto const text = in_time(transaction, [&] { return store.get(side.key, transaction.timeout); });
    auto const difference = compare_message(group, transaction, *side.message,
                                            {reinterpret_cast<std::byte const*>(text.data()), text.size()});
    if (!difference.empty()) {
      session_.fail_and_throw(difference);
    }
  }
}

}  // namespace zeroth::comm
