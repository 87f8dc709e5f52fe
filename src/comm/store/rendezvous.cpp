// SPDX-License-Identifier: Apache-2.0
#include "comm/store/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "comm/rank_error.hpp"
#include "comm/store/frame.hpp"
#include "comm/store/socket.hpp"
#include "core/host_name.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::size_t most_problem_bytes = 2048;

std::string encode(Presence const& presence) {
  return Body{}
      .text(presence.host)
      .text(presence.machine)
      .text(presence.device)
      .text(std::string_view{presence.problem}.substr(0, most_problem_bytes))
      .take();
}

Presence decode(std::string const& bytes) {
  BodyReader reader{bytes};
  Presence presence;
  presence.host = reader.text(most_value_bytes);
  presence.machine = reader.text(most_value_bytes);
  presence.device = reader.text(most_value_bytes);
  presence.problem = reader.text(most_value_bytes);
  return presence;
}

StoreOptions store_options(RendezvousOptions const& options) {
  return {.at = options.at,
          .rank = options.rank,
          .world = options.world,
          .join_timeout = options.join_timeout,
          .heartbeat_timeout = options.heartbeat_timeout,
          .on_failure = options.on_failure,
          .groups_of = options.groups_of};
}

}  // namespace

Rendezvous::Rendezvous(RendezvousOptions const& options) : store_{store_options(options)} {
  Presence const mine{host_name(), machine_id(), options.device, options.problem};
  try {
    std::vector<Presence> ranks;
    auto const all = store_.gather("zeroth ranks", encode(mine), options.join_timeout);
    std::transform(all.begin(), all.end(), std::back_inserter(ranks), decode);
    check_able(ranks);
    check_unshared(ranks);
  } catch (...) {  // before the store's destructor reports less
    store_.abort(fmt::format("rank {} failed: {}", options.rank, describe_current_exception().bare));
    throw;
  }
}

std::string Rendezvous::share(std::string const& name, int root, std::function<std::string()> const& make,
                              std::chrono::milliseconds timeout) {
  ZEROTH_EXPECTS(root >= 0 && root < store_.world(),
                 fmt::format("share '{}': root {} in a world of {}", name, root, store_.world()));
  auto const key = fmt::format("zeroth shares {} #{}", name, uses_[name]++);
  if (store_.rank() != root) {
    return store_.get(key, timeout);
  }
  auto value = make();
  store_.set(key, value);
  return value;
}

}  // namespace zeroth::comm
