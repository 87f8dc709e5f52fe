/// What each stage of a file would hold on a rank: the library's own layout and plan, asked once for each.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/comm/communicator.hpp>
#include <zeroth/config/config.hpp>
#include <zeroth/device/memory.hpp>
#include <zeroth/model/model.hpp>

namespace zeroth::tools {

/// What is planned.
struct Plan {
  Model model;
  Config config;
  int world = 1;
  comm::Transport transport = comm::Transport::local;
};

/// What every rank holds: all hold the same. Bytes.
struct RankMemory {
  MemoryBytes states;        ///< Parameters, gradients and optimizer without padding; slots and scratch as allocated.
  std::int64_t padding = 0;  ///< Of parameters, gradients and optimizer together.
  [[nodiscard]] std::int64_t total() const noexcept { return states.total() + padding; }  ///< As allocated.
};

/// A stage in place of the file's, everything else as the file says.
struct StagePlan {
  int stage = 0;
  std::optional<RankMemory> memory;
  std::int64_t bytes_sent_per_step = 0;  ///< By a rank; see bytes_sent.hpp.
  std::string refused;                   ///< Without memory: why the file cannot be used at this stage.
};

/// As the file says it, in full. Throws ConfigError if the file does not suit the world.
[[nodiscard]] Settings settings_of(Plan const& plan);
/// Throws ConfigError if the file does not suit the world.
[[nodiscard]] RankMemory memory_of(Plan const& plan);
/// What the user should know about the stage that is asked for: see engine::stage_note, sum_warning and
/// prefetch_warning.
[[nodiscard]] std::vector<std::string> notes_of(Plan const& plan);
/// `plan` with changes of its file; see Config::with.
[[nodiscard]] Plan changed(Plan const& plan, std::string const& changes);
/// Another stage, everything else as the file says.
[[nodiscard]] Config at_stage(Config const& config, int stage);
[[nodiscard]] Plan at_stage(Plan const& plan, int stage);
/// Stages 0 to 3. Throws ConfigError if the file does not suit the world at its own stage; at another one that is
/// written down, because what a file leaves out may depend on the stage.
[[nodiscard]] std::vector<StagePlan> plan_stages(Plan const& plan);

}  // namespace zeroth::tools
