// SPDX-License-Identifier: Apache-2.0
/// Computes all that an engine will hold from a model and a stage file.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/stage_plan.hpp"
#include "shard/layout.hpp"
#include "shard/memory_plan.hpp"
#include "stage/schedule.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/engine/mesh.hpp"
#include "zeroth/engine/plan.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::engine {

/// The results that depend on (model, config, world) and PlanOptions alone.
struct Blueprint {
  Settings settings;
  shard::Layout layout;
  stage::ScheduleLimits limits;
  shard::PlanRequest request;
  StagePlan pipeline;  ///< Empty with one stage.
};
/// `model` is all of `whole`, or one pipeline stage's part of it; `world` is the number of ranks that share it. Sizes
/// that are "auto" follow `whole`, so that all stages have the same. Throws ConfigError if the file asks for a pipeline
/// and `model` is not a stage's part.
[[nodiscard]] Blueprint make_blueprint(model::Description const& model, model::Description const& whole,
                                       Config const& config, int world, PlanOptions const& options);

/// The number of the `world` ranks that share the states of one stage and one part of parameters. Throws ConfigError if
/// the file's stages and tensor ranks do not divide `world`. With parameter servers, the number of workers.
[[nodiscard]] int data_ranks(Config const& config, int world);
/// Throws ContractError unless `model` was made for the tensor rank that `mesh` gives, and ConfigError if the file asks
/// for tensor ranks and `mesh` is null.
void expect_tensor_part(Model const& model, Config const& config, Mesh const* mesh);
/// The reason why a mesh is not possible on such devices. Empty if it is, or if the file asks for none.
[[nodiscard]] std::string refused_mesh(Settings const& settings, comm::Transport transport, DeviceKind device);

/// A warning if overlap is asked for and stage3_max_live_parameters leaves turns without prefetch: the key, its value,
/// and the value that it needs. Empty otherwise.
[[nodiscard]] std::string prefetch_warning(Blueprint const& blueprint);

/// A note if zeroth.delayed_update is on and one bucket has all gradients, so that nothing overlaps backward: a value
/// of reduce_bucket_size that makes several. Empty otherwise.
[[nodiscard]] std::string bucket_note(Blueprint const& blueprint);

/// A note if another stage would round differently, because the stage decides when gradients are reduced: the key that
/// avoids it. Empty otherwise.
[[nodiscard]] std::string stage_note(Settings const& settings);

/// The reason why the same global batch rounds differently on another number of ranks. Empty if it does not.
[[nodiscard]] std::string ranks_note(Blueprint const& blueprint);

/// A warning if many micro-steps are summed in 16 bits: the loss of precision, and the key that avoids it. Empty
/// otherwise.
[[nodiscard]] std::string sum_warning(Settings const& settings);

/// A note if 16-bit sums are rounded twice because groups sum first: the key that avoids it. Empty otherwise.
[[nodiscard]] std::string two_level_note(Settings const& settings);

/// The offload setting that engines on such devices do not support: the key, its value, and the value to set instead.
/// Empty if all are supported.
[[nodiscard]] std::string refused_offload(OffloadSettings const& offload, DeviceKind device);

/// The reason why the optimizer is not possible on such devices. Empty if it is.
[[nodiscard]] std::string refused_optimizer(Settings const& settings, DeviceKind device);

/// The reason why `transport` cannot keep zeroth.same_bits_at_any_ranks, if that is asked for. Empty if it can.
[[nodiscard]] std::string refused_same_bits(Settings const& settings, comm::Transport transport);

/// A note if memory for tiles, or for gathered units, takes much of what offloading saves: the key that lowers it.
/// Empty otherwise.
[[nodiscard]] std::string offload_note(Settings const& settings, shard::MemoryPlan const& plan);
/// A note if buffers take much of what offloading parameters to a disk saves. Empty otherwise.
[[nodiscard]] std::string parameters_note(Settings const& settings, shard::MemoryPlan const& plan);

/// A warning if the ranks of a group are on several machines: the group, the number of machines, and what becomes slow.
/// `machines`, by rank, has equal values for ranks of one machine. Empty otherwise, and if groups are not used.
[[nodiscard]] std::string crossing_warning(Settings const& settings, std::span<std::uint64_t const> machines);

}  // namespace zeroth::engine
