// SPDX-License-Identifier: Apache-2.0
/// The communicators that an engine splits from its job's.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/share.hpp"
#include "shard/memory_plan.hpp"
#include "shard/ranks.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::engine {

/// The communicator that pipeline stages use to decide a step together; the name appears in messages and simulations.
inline constexpr char const* name_of_stages = "step";
/// The communicators on which stages exchange sums of the gradients of tied parameters.
inline constexpr char const* name_of_ties = "ties";

/// A communicator that an engine splits from its job's, with ranks ordered by place.
struct Split {
  std::string name;
  shard::Lane lane = shard::Lane::gather;
  shard::Axes axes;  ///< The axes along which its ranks differ.
  /// The color of `rank` of the job: the same for ranks that end up in one communicator.
  [[nodiscard]] int color(shard::Places const& places, int rank) const noexcept;
  /// The ranks that share a communicator with `rank`, ascending.
  [[nodiscard]] std::vector<int> ranks_with(int rank, shard::Places const& places) const;
};
/// The splits, in the order in which all ranks make them.
[[nodiscard]] std::vector<Split> splits_of(Settings const& settings, shard::PlanRequest const& request);

/// Gathers and reductions have separate communicators, so that neither waits for the other. With
/// Settings::single_communicator they share one and take turns. Groups and replicas have communicators if they move
/// data.
class Communicators {
 public:
  /// Collective on `job`; waits. Also sets the options of `job` to those of `settings`.
  Communicators(comm::Communicator& job, Settings const& settings, shard::PlanRequest const& request);

  [[nodiscard]] shard::Ranks const& gather() const noexcept { return gather_; }
  [[nodiscard]] shard::Ranks const& reduce() const noexcept { return reduce_; }
  void set_options(comm::CommOptions const& options);

 private:
  std::vector<std::unique_ptr<comm::Communicator>> owned_;
  shard::Ranks gather_, reduce_;
};

/// Communicators among the ranks at one place of pipeline stages that have tied parameters: one for each set of stages.
class TieCommunicators {
 public:
  TieCommunicators() = default;
  /// Collective on `line`, the ranks at this place of all stages; waits.
  TieCommunicators(comm::Communicator& line, Share const& share);

  /// Null unless `stages` includes this stage and another one.
  [[nodiscard]] comm::Communicator* over(std::vector<int> const& stages) const noexcept;
  /// A communicator for each tie of a layout; null if only this stage has the parameter.
  [[nodiscard]] std::vector<comm::Communicator*> of(shard::Layout const& layout) const;
  void set_options(comm::CommOptions const& options);

 private:
  std::map<std::vector<int>, std::unique_ptr<comm::Communicator>> by_stages_;
};

}  // namespace zeroth::engine
