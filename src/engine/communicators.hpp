// SPDX-License-Identifier: Apache-2.0
/// The communicators of an engine: which it splits from its job's.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "shard/places.hpp"
#include "shard/ranks.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::engine {

/// Gathers and reductions have their own, so that neither waits for the other; with Settings::single_communicator both
/// are the same, and take turns.
class Communicators {
 public:
  /// Collective on `job`, waits. Sets the options of `job` to those of `settings`.
  Communicators(comm::Communicator& job, Settings const& settings, shard::Places const& places);

  [[nodiscard]] shard::Ranks const& gather() const noexcept { return gather_; }
  [[nodiscard]] shard::Ranks const& reduce() const noexcept { return reduce_; }
  void set_options(comm::CommOptions const& options);

 private:
  [[nodiscard]] shard::Ranks split(comm::Communicator& job, shard::Places const& places, std::string const& name);

  std::vector<std::unique_ptr<comm::Communicator>> owned_;
  shard::Ranks gather_, reduce_;
};

}  // namespace zeroth::engine
