// SPDX-License-Identifier: Apache-2.0
#include "engine/server_ranks.hpp"

#include "comm/launch/job_state.hpp"
#include "engine/server_plan.hpp"

namespace zeroth::engine {

std::unique_ptr<ServerRanks> ServerRanks::of(Job& job, Config const& config) {
  if (config.parameter_server().servers == 0) {
    return nullptr;
  }
  static_cast<void>(worker_ranks(config, job.world()));
  return std::make_unique<ServerRanks>(job, config.parameter_server());
}

ServerRanks::ServerRanks(Job& job, ParameterServerSettings const& settings)
    : workers_{job.world() - settings.servers},
      serves_{job.rank() >= workers_},
      is_stale_{settings.staleness > 0},
      part_{[&] {
        auto const [color, key] = split_of_job(0, job.rank(), workers_, is_stale_);
        return job.split(color, key, serves_ ? "servers" : "workers");
      }()} {
  auto const split = [&](std::size_t number, char const* name) {
    auto const [color, key] = split_of_job(number, job.rank(), workers_, is_stale_);
    return job.communicator().split(color, key, name);
  };
  all_ = split(1, name_of_all);
  deciders_ = split(2, "deciders");
}

comm::SplitRequest ServerRanks::split_of_job(std::size_t split, int rank, int workers, bool is_stale) noexcept {
  switch (split) {
    case 0: return {rank >= workers ? 1 : 0, rank};
    case 1: return {0, rank};
    default: return {is_stale ? rank : 0, rank};
  }
}

void ServerRanks::connect(device::Device& device, std::size_t flats, comm::CommOptions const& options) {
  all_->set_options({.timeout = options.timeout, .check = true});
  deciders_->set_options(options);
  links_ = std::make_unique<shard::ServerLinks>(*all_, workers_, is_stale_, options);
  if (is_stale_ && !serves_) {
    links_->make_streams(device, flats);
  }
  notes.resize(static_cast<std::size_t>(links_->servers()));
}

void ServerRanks::end_streams() noexcept {
  if (links_) {
    links_->end_streams();
  }
}

}  // namespace zeroth::engine
