// SPDX-License-Identifier: Apache-2.0
/// Operations among ranks of a communicator without a collective, so that some of them need not take part.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "comm/describe.hpp"
#include "comm/meeting.hpp"
#include "comm/operations.hpp"
#include "core/hash.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

void check_ranks(Communicator const& of, std::span<int const> ranks, std::string const& name) {
  auto const say = [&](std::string const& what) {
    return fmt::format("create_group '{}' on communicator '{}': {}", name, of.name(), what);
  };
  int const world = of.world();
  std::vector<bool> is_there(static_cast<std::size_t>(world));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    int const rank = ranks[i];
    ZEROTH_EXPECTS(rank >= 0 && rank < world,
                   say(fmt::format("ranks [{}] is {}; allowed are 0 to {}", i, rank, world - 1)));
    ZEROTH_EXPECTS(!is_there[static_cast<std::size_t>(rank)], say(fmt::format("ranks has {} twice", rank)));
    is_there[static_cast<std::size_t>(rank)] = true;
  }
  ZEROTH_EXPECTS(is_there[static_cast<std::size_t>(of.rank())],
                 say(fmt::format("rank {} is not in [{}]; only the ranks of the list call it", of.rank(),
                                 fmt::join(ranks, ", "))));
}

std::uint64_t hash_of(std::uint64_t group, std::span<int const> ranks, std::string const& name) noexcept {
  Fnv1a hash;
  hash.add(group);
  hash.add(std::string_view{name});
  for (int const rank : ranks) {
    hash.add(static_cast<std::uint64_t>(rank));
  }
  return hash.value();
}

}  // namespace

Communicator::Meetings Communicator::meetings(char const* call) {
  auto const result = do_meetings();
  ZEROTH_EXPECTS(result.values != nullptr,
                 fmt::format("{} on communicator '{}', which has no store of keys and values: it is not one of a "
                             "launched job",
                             call, name()));
  return result;
}

KeyValueStore Communicator::key_value_store() { return KeyValueStore{*meetings("key_value_store").values}; }

std::unique_ptr<Communicator> Communicator::create_group(std::span<int const> ranks, std::string const& name) {
  check_name(*this, "create_group", name);
  check_ranks(*this, ranks, name);
  auto const [values, group, timeout] = meetings("create_group");
  auto const hash = hash_of(group, ranks, name);
  auto const id = mix(hash, ++groups_made_[hash]);
  auto const me = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
  Meeting meeting{*values, fmt::format("group {:016x}", id), static_cast<int>(ranks.size())};
  auto const missing = meeting.come(me, timeout, Meeting::IfLate::cancel);
  if (meeting.cancelled()) {
    std::vector<int> late;
    std::ranges::transform(missing, std::back_inserter(late),
                           [&](int each) { return job_rank(ranks[static_cast<std::size_t>(each)]); });
    throw PeerError{fmt::format(
        "create_group '{}' of ranks [{}] of communicator '{}': {}", name, fmt::join(ranks, ", "), this->name(),
        late.empty() ? fmt::format("rank {} called it after the other ranks had timed out", job_rank(rank()))
                     : fmt::format("{} did not call it with this list and name within {}", describe_ranks(late),
                                   describe(timeout)))};
  }
  return do_create_group(id, ranks, name);
}

std::vector<int> Communicator::monitored_barrier(std::chrono::milliseconds timeout) {
  auto const place = meetings("monitored_barrier");
  Meeting meeting{*place.values, fmt::format("barrier {:016x} {}", place.group, ++barriers_), world()};
  return meeting.come(rank(), timeout, Meeting::IfLate::leave);
}

}  // namespace zeroth::comm
