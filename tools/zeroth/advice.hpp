// SPDX-License-Identifier: Apache-2.0
/// What to change when a model does not fit: found by planning with the change.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan.hpp"

namespace zeroth::tools {

/// A key of the file that would save memory, and what it would save alone.
struct Saving {
  std::string key;              ///< "zeroth.gradient_slots"
  std::string value;            ///< As in the file.
  std::int64_t bytes = 0;       ///< Less than the file's own value needs, on each rank.
  bool numbers_differ = false;  ///< Training rounds differently with it.
};

/// What lives beside the device's memory: the largest tiles or buffers with which a stage fits, or the smallest that
/// were tried.
struct TierSaving {
  std::int64_t count = 0;    ///< Elements of a tile (sub_group_size) or of a buffer (buffer_size).
  std::int64_t total = 0;    ///< Of memory then.
  std::int64_t in_tier = 0;  ///< Of each rank.
};

/// Of one stage.
struct StageAdvice {
  int stage = 0;
  std::vector<Saving> savings;           ///< Greatest first.
  std::int64_t total_with_savings = 0;   ///< All savings together that change no numbers.
  std::optional<TierSaving> states;      ///< A CPU's on a disk, a GPU's in memory of the host, where they are not yet.
  std::optional<TierSaving> parameters;  ///< On a disk too, where states in another tier are not enough for stage 3.
};

struct Advice {
  std::optional<int> smallest_stage;      ///< That fits at this world.
  std::optional<int> world_for_stage_3;   ///< Smallest power of two above this world, if stage 3 does not fit here.
  std::optional<int> world_with_savings;  ///< The same with stage 3's savings that change no numbers, if it is smaller.
  bool worlds_refused = false;            ///< The file's batch sizes rule out some of those tried.
  std::vector<StageAdvice> stages;        ///< The one asked for, then stage 3 if no stage fits.
};

/// For a `stage` that needs more than `device_bytes`. `stages` are plan_stages' of `input`.
[[nodiscard]] Advice advise(PlanInput const& input, std::vector<StagePlan> const& stages, int stage,
                            std::int64_t device_bytes);

}  // namespace zeroth::tools
