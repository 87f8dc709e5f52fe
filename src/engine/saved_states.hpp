// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint has, beside what an engine needs: does it fit, and which bytes go where?
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/crossing.hpp"
#include "engine/share.hpp"
#include "shard/held_state.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/checkpoint/record.hpp"
#include "zeroth/engine/checkpoint.hpp"

namespace zeroth::engine {

/// All that keeps the states of `record` from being those of an engine with this model, optimizer and dtypes, each in a
/// line. Nothing if they fit. Of optimizers' states those of this rank's stage are looked at.
[[nodiscard]] std::vector<std::string> misfits(checkpoint::Record const& record, Share const& whole,
                                               shard::ShardManager const& manager, RestoreOptions const& options);

/// A piece of a file that has elements of a state which belong into this rank's slice.
struct Arrival {
  checkpoint::PieceOfPart from;
  Dtype saved = Dtype::fp32;
  std::shared_ptr<checkpoint::Crossing const> crossing;  ///< From the saved part to what this rank has.
  shard::HeldState slice;
  std::int64_t before = 0;  ///< Element `e` of what this rank has of the parameter is element `before + e` of `slice`.
};
/// Of this rank's own slices. Only where nothing misfits.
[[nodiscard]] std::vector<Arrival> arrivals(checkpoint::Record const& record, shard::ShardManager const& manager);

}  // namespace zeroth::engine
