// SPDX-License-Identifier: Apache-2.0
/// Compares a checkpoint with the states of an engine, and maps file bytes to them.
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

// `found` is Contents::by_name() of the record's contents.

/// The reasons why the states of `record` do not fit an engine with this model, optimizer and dtypes, one line each.
/// Empty if they fit. Checks optimizer states of this rank's stage only.
[[nodiscard]] std::vector<std::string> misfits(checkpoint::Record const& record, Share const& whole,
                                               checkpoint::FoundByName const& found, shard::ShardManager const& manager,
                                               RestoreOptions const& options);

/// A piece of a file with elements of a state that belong to this rank's slice.
struct Arrival {
  checkpoint::PieceOfPart from;
  Dtype saved = Dtype::fp32;
  std::shared_ptr<checkpoint::Crossing const> crossing;  ///< Maps the saved part to the part that this rank has.
  shard::HeldState slice;
  std::int64_t before = 0;  ///< Element `e` of this rank's part of the parameter is element `before + e` of `slice`.
};
/// The arrivals of this rank's own slices, and of its errors if has_errors(). Call only if misfits() is empty.
[[nodiscard]] std::vector<Arrival> arrivals(checkpoint::Record const& record, checkpoint::FoundByName const& found,
                                            shard::ShardManager const& manager, RestoreOptions const& options);

/// The states that a partial restore does not change, and the saved states that it ignores, one line each.
[[nodiscard]] std::vector<std::string> left_out(checkpoint::Record const& record, Share const& whole,
                                                checkpoint::FoundByName const& found, RestoreOptions const& options);
/// Whether averages of parameters are restored. If not, those of an engine that has them become the parameters.
[[nodiscard]] bool has_averages(checkpoint::Record const& record, RestoreOptions const& options);

/// Whether `record` has what encoding has lost of gradients or first moments, for as many ranks as here. If not, it
/// begins at zero.
[[nodiscard]] bool has_errors(checkpoint::Record const& record, shard::ShardManager const& manager);

}  // namespace zeroth::engine
