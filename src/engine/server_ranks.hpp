// SPDX-License-Identifier: Apache-2.0
/// The ranks of a job with parameter servers: workers, then servers.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "shard/server_links.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"

namespace zeroth::engine {

class ServerRanks {
 public:
  /// Null if the file asks for no servers. Collective on `job`. Throws ConfigError if the job has no rank for a worker.
  [[nodiscard]] static std::unique_ptr<ServerRanks> of(Job& job, Config const& config);
  ServerRanks(Job& job, ParameterServerSettings const& settings);
  /// The arguments of `rank` for split number `split` of the job, from 0: into workers and servers, then all(), then
  /// deciders().
  [[nodiscard]] static comm::SplitRequest split_of_job(std::size_t split, int rank, int workers,
                                                       bool is_stale) noexcept;
  static constexpr char const* name_of_all = "with-servers";  ///< The name of all() in messages and simulations.
  /// Makes the links. Collective.
  void connect(device::Device& device, std::size_t flats, comm::CommOptions const& options);
  void end_streams() noexcept;  ///< Ends the streams of the links, after their work.

  [[nodiscard]] bool serves() const noexcept { return serves_; }
  [[nodiscard]] int workers() const noexcept { return workers_; }
  /// All workers, or all servers.
  [[nodiscard]] Job& part() noexcept { return part_; }
  /// Workers, then servers.
  [[nodiscard]] comm::Communicator& all() const noexcept { return *all_; }
  /// The ranks that decide a step together, on the reduce stream: all ranks, or only this one if workers may be stale.
  [[nodiscard]] comm::Communicator& deciders() const noexcept { return *deciders_; }
  [[nodiscard]] shard::ServerLinks& links() const noexcept { return *links_; }
  [[nodiscard]] bool is_stale() const noexcept { return is_stale_; }
  std::int64_t pushes = 0;             ///< Pushes of this worker, if workers may be stale.
  std::vector<shard::PullNote> notes;  ///< The servers' notes of this worker's last pull.
  shard::Order order;                  ///< Memory for an order until its stream has passed. One at a time.

 private:
  int workers_;
  bool serves_, is_stale_;
  Job part_;
  std::unique_ptr<comm::Communicator> all_, deciders_;
  std::unique_ptr<shard::ServerLinks> links_;
};

}  // namespace zeroth::engine
