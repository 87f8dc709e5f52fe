// SPDX-License-Identifier: Apache-2.0
/// The communicators of an engine: which it splits from its job's.
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

/// The communicator on which the stages of a pipeline decide a step together, in messages and simulations.
inline constexpr char const* name_of_stages = "step";
/// Likewise those on which stages that have tied parameters together tell each other sums of gradients.
inline constexpr char const* name_of_ties = "ties";

/// A communicator that an engine splits from its job's, in which places are the order.
struct Split {
  std::string name;
  shard::Lane lane = shard::Lane::gather;
  shard::Axes axes;  ///< Over which its ranks differ.
  /// The same for those that `rank` of the job will find there.
  [[nodiscard]] int color(shard::Places const& places, int rank) const noexcept;
  /// Those, in order of rank.
  [[nodiscard]] std::vector<int> ranks_with(int rank, shard::Places const& places) const;
};
/// In the order in which all ranks split them.
[[nodiscard]] std::vector<Split> splits_of(Settings const& settings, shard::PlanRequest const& request);

/// Gathers and reductions have their own, so that neither waits for the other; with Settings::single_communicator both
/// are the same, and take turns. Groups and replicas have some where something moves among them.
class Communicators {
 public:
  /// Collective on `job`, waits. Sets the options of `job` to those of `settings`.
  Communicators(comm::Communicator& job, Settings const& settings, shard::PlanRequest const& request);

  [[nodiscard]] shard::Ranks const& gather() const noexcept { return gather_; }
  [[nodiscard]] shard::Ranks const& reduce() const noexcept { return reduce_; }
  void set_options(comm::CommOptions const& options);

 private:
  std::vector<std::unique_ptr<comm::Communicator>> owned_;
  shard::Ranks gather_, reduce_;
};

/// Among ranks at one place of those stages of a pipeline that have parameters together: one for each set of stages.
class TieCommunicators {
 public:
  TieCommunicators() = default;
  /// Collective on `line`, the ranks at this place of all stages, waits.
  TieCommunicators(comm::Communicator& line, Share const& share);

  /// Null unless this stage is among several.
  [[nodiscard]] comm::Communicator* over(std::vector<int> const& stages) const noexcept;
  /// A communicator for each of a layout's ties; null: this stage alone has the parameter.
  [[nodiscard]] std::vector<comm::Communicator*> of(shard::Layout const& layout) const;
  void set_options(comm::CommOptions const& options);

 private:
  std::map<std::vector<int>, std::unique_ptr<comm::Communicator>> by_stages_;
};

}  // namespace zeroth::engine
