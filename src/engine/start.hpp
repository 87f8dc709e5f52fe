// SPDX-License-Identifier: Apache-2.0
/// The checks when an engine starts: ranks were given the same, and their machines have enough memory and disk.
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
  /// Checks the ranks that share states. Collective; waits. Throws PeerError if models or files differ, and ConfigError
  /// if a machine cannot create files in a folder of the stage file.
  void agree();
  /// Checks stages and tensor ranks, after agree(). `lists` are the actions of all stages, `whole` is the whole model.
  void agree_over_mesh(std::vector<stage::Actions> const& lists, Model const& whole);
  /// Checks workers and parameter servers, after agree().
  void agree_with_servers();
  /// Throws ConfigError if a machine has too little. Call when the needs of all ranks of the job are known.
  void expect_room() const;

  [[nodiscard]] std::string const& stage_file() const noexcept { return stage_file_; }  ///< Resolved.
  [[nodiscard]] std::uint64_t run_id() const noexcept { return run_id_; }  ///< Random, the same on all ranks.
  /// A warning if groups cross machines; otherwise empty.
  [[nodiscard]] std::string const& warning() const noexcept { return warning_; }

 private:
  Runtime const& runtime_;
  ShardedModel const& sharded_;
  std::string stage_file_, warning_;
  std::uint64_t run_id_ = 0;
  bool takes_of_host_;
  std::vector<RankCapacity> capacities_;  // of the ranks that share states; after agree_over_mesh() of all ranks, in
                                          // order
};

}  // namespace zeroth::engine
