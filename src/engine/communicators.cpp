// SPDX-License-Identifier: Apache-2.0
#include "engine/communicators.hpp"

namespace zeroth::engine {

Communicators::Communicators(comm::Communicator& job, Settings const& settings, shard::Places const& places) {
  auto const split_for = [&](std::string const& name, bool gathers) {
    job.set_options({.timeout = settings.timeout, .copy_engine = gathers && settings.copy_engine_gather});
    return split(job, places, name);
  };
  gather_ = split_for(settings.single_communicator ? "all" : "gather", true);
  reduce_ = settings.single_communicator ? gather_ : split_for("reduce", false);
}

shard::Ranks Communicators::split(comm::Communicator& job, shard::Places const& places, std::string const& name) {
  auto const rank = job.rank();
  auto const part = [&](int color, std::string const& suffix) {
    return owned_.emplace_back(job.split(color, places.place_of(rank), name + suffix)).get();
  };
  auto* const all = part(0, "");
  if (places.replicas() == 1) {
    return {.all = all, .group = all, .replicas = nullptr};
  }
  auto* const group = part(places.group_of(rank), "-group");
  return {.all = all, .group = group, .replicas = part(places.place_of(rank) / places.replicas(), "-replicas")};
}

void Communicators::set_options(comm::CommOptions const& options) {
  for (auto const& each : owned_) {
    each->set_options(options);
  }
}

}  // namespace zeroth::engine
