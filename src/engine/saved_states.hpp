// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint has, beside what an engine needs: does it fit, and which bytes go where?
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "engine/share.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/checkpoint/record.hpp"
#include "zeroth/engine/checkpoint.hpp"

namespace zeroth::engine {

/// All that keeps the states of `record` from being those of an engine with this model, optimizer and dtypes, each in a
/// line. Nothing if they fit. Of optimizers' states those of this rank's stage are looked at.
[[nodiscard]] std::vector<std::string> misfits(checkpoint::Record const& record, Share const& whole,
                                               shard::ShardManager const& manager, RestoreOptions const& options);

/// A piece of a file, and the memory of this rank that it belongs into.
struct Arrival {
  checkpoint::Piece piece;
  std::byte* to = nullptr;  ///< On the device. Null: on its disk, in `on_disk`.
  shard::OnDisk on_disk = {};
  Dtype saved = Dtype::fp32, held = Dtype::fp32;
};
/// Of this rank's own slices. Only where nothing misfits.
[[nodiscard]] std::vector<Arrival> arrivals(checkpoint::Record const& record, shard::ShardManager const& manager);

}  // namespace zeroth::engine
