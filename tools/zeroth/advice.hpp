// SPDX-License-Identifier: Apache-2.0
/// Advice for a model that does not fit, found by planning with each change.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan.hpp"

namespace zeroth::tools {

/// A key of the file that would save memory, and the saving from this key alone.
struct Saving {
  std::string key;              ///< "zeroth.gradient_slots"
  std::string value;            ///< As written in the file.
  std::int64_t bytes = 0;       ///< Bytes saved per rank, compared with the file's own value.
  bool numbers_differ = false;  ///< Training rounds differently with it.
};

/// Offloading to another tier: the largest tiles or buffers with which a stage fits, or else the smallest that were
/// tried.
struct TierSaving {
  std::int64_t count = 0;    ///< Elements of a tile (sub_group_size) or of a buffer (buffer_size).
  std::int64_t total = 0;    ///< Device memory per rank with this offload.
  std::int64_t in_tier = 0;  ///< Per rank.
};

/// The advice for one stage.
struct StageAdvice {
  int stage = 0;
  std::vector<Saving> savings;           ///< Greatest first.
  std::int64_t total_with_savings = 0;   ///< With all savings that leave the numbers unchanged.
  std::optional<TierSaving> states;      ///< On a CPU to a disk, on a GPU to host memory, unless they are there
                                         ///< already.
  std::optional<TierSaving> parameters;  ///< To a disk too, if offloading states is not enough for stage 3.
};

struct Advice {
  std::optional<int> smallest_stage;      ///< Smallest stage that fits this world.
  std::optional<int> world_for_stage_3;   ///< Smallest power of two above this world, if stage 3 does not fit here.
  std::optional<int> world_with_savings;  ///< With stage 3's savings that leave the numbers unchanged, if that world is
                                          ///< smaller.
  bool worlds_refused = false;            ///< The file's batch sizes rule out some of the worlds tried.
  std::vector<StageAdvice> stages;        ///< The requested stage, then stage 3 if no stage fits.
};

/// Advice for `stage`, which needs more than `device_bytes`. `stages` is the result of plan_stages(input).
[[nodiscard]] Advice advise(PlanInput const& input, std::vector<StagePlan> const& stages, int stage,
                            std::int64_t device_bytes);

}  // namespace zeroth::tools
