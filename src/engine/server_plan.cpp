// SPDX-License-Identifier: Apache-2.0
#include "engine/server_plan.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "stage/buckets.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

int worker_ranks(Config const& config, int world) {
  auto const servers = config.parameter_server().servers;
  if (servers >= world) {
    throw ConfigError{fmt::format(
        "{}: zeroth.parameter_server.servers is {}, and there {} {} rank{}, of which at least one has to be a worker; "
        "allowed: {}",
        config.source(), servers, world == 1 ? "is" : "are", world, world == 1 ? "" : "s",
        world == 1 ? std::string{"0"} : fmt::format("0 to {}", world - 1))};
  }
  return world - servers;
}

Blueprint with_servers(Blueprint workers, model::Description const& model, bool serves) {
  auto result = std::move(workers);
  auto& [settings, layout, limits, request, pipeline] = result;
  int const ranks = layout.world();
  int const servers = settings.parameter_server.servers;
  bool const folds = shard::folds(request);  // as these ranks would by themselves: servers add in the same way
  layout = shard::Layout{model, servers, shard::layout_options(settings)};
  limits = stage::limits_of(layout, settings);
  request.largest_bucket_count = stage::Buckets::largest_count(layout, limits.bucket_count);
  request.comm_staging_bytes = 0;  // channels reduce nothing
  if (!serves) {
    request.placements.optimizer = shard::Placement::absent;
    return result;
  }
  request.placements = {shard::Placement::shard, shard::Placement::shard, shard::Placement::shard};
  request.places = shard::Places{servers, servers};
  request.workers = ranks;
  request.folds_into_sums = folds && settings.parameter_server.staleness == 0;
  request.settings.sums_micro_steps = false;  // a worker adds them up
  request.settings.poison = false;            // no guards
  return result;
}

std::string refused_servers(Settings const& settings, comm::Transport transport, DeviceKind device) {
  auto const servers = settings.parameter_server.servers;
  if (servers == 0 || (comm::traits_of(transport).on_host && device == DeviceKind::cpu)) {
    return {};
  }
  return fmt::format(
      "zeroth.parameter_server.servers is {} on transport {} of device {}: parameter servers are for CPUs; allowed "
      "here is 0",
      servers, comm::name_of(transport), device == DeviceKind::cpu ? "cpu" : "cuda");
}

}  // namespace zeroth::engine
