// SPDX-License-Identifier: Apache-2.0
/// How an engine begins: ranks find that they were given the same, and that their machines have what they will take.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/capacity.hpp"
#include "engine/runtime.hpp"
#include "engine/sharded_model.hpp"
#include "stage/pipeline.hpp"

namespace zeroth::engine {

class Start {
 public:
  Start(Runtime const& runtime, ShardedModel const& sharded, Config const& config);
  /// Among the ranks that share states. Collective, waits. Throws PeerError where models or files differ, and
  /// ConfigError where a machine can make no file in a folder of the stage file.
  void agree();
  /// Likewise among stages and tensor ranks, once those that share states have agreed. `lists` are what the stages do,
  /// and `whole` is the model.
  void agree_over_mesh(std::vector<stage::Actions> const& lists, Model const& whole);
  /// Where it is known what all ranks of the job hold. Throws ConfigError where a machine has less.
  void expect_room() const;

  [[nodiscard]] std::string const& stage_file() const noexcept { return stage_file_; }  ///< Resolved.
  [[nodiscard]] std::uint64_t run_id() const noexcept { return run_id_; }  ///< Random, the same on all ranks.
  /// Where groups cross machines; otherwise empty.
  [[nodiscard]] std::string const& warning() const noexcept { return warning_; }

 private:
  Runtime const& runtime_;
  ShardedModel const& sharded_;
  std::string stage_file_, warning_;
  std::uint64_t run_id_ = 0;
  bool takes_of_host_;
  std::vector<RankCapacity> capacities_;  // of those that share states, then of all, in order
};

}  // namespace zeroth::engine
