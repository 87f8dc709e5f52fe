// SPDX-License-Identifier: Apache-2.0
/// From a model and a stage file to everything that an engine will hold.
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

/// All that follows from (model, config, world) and PlanOptions alone.
struct Blueprint {
  Settings settings;
  shard::Layout layout;
  stage::ScheduleLimits limits;
  shard::PlanRequest request;
  StagePlan pipeline;  ///< Empty with one stage.
};
/// `model` is all of `whole`, or what a stage of a pipeline has of it, and `world` the ranks that share it. Sizes that
/// are "auto" follow `whole`, so that all stages have the same. Throws ConfigError for a file that asks for a pipeline
/// where `model` is no stage's.
[[nodiscard]] Blueprint make_blueprint(model::Description const& model, model::Description const& whole,
                                       Config const& config, int world, PlanOptions const& options);

/// Of `world` ranks, those that share the states of one stage and one part of parameters. Throws ConfigError where the
/// file's stages and tensor ranks do not divide them.
[[nodiscard]] int data_ranks(Config const& config, int world);
/// Throws ContractError unless `model` is made for the tensor rank that `mesh` says, and ConfigError where the file
/// asks for tensor ranks and there is no mesh: it is null.
void expect_tensor_part(Model const& model, Config const& config, Mesh const* mesh);
/// Why there is no mesh on such devices. Empty: there is, or the file asks for none.
[[nodiscard]] std::string refused_mesh(Settings const& settings, comm::Transport transport, DeviceKind device);

/// Where overlap is asked for and stage3_max_live_parameters leaves turns without prefetch: which key, its value, and
/// what it would have to be. Empty otherwise.
[[nodiscard]] std::string prefetch_warning(Blueprint const& blueprint);

/// Where another stage would round otherwise, because the stage decides when gradients are reduced: which key says so
/// instead. Empty otherwise.
[[nodiscard]] std::string stage_note(Settings const& settings);

/// Why the same global batch has other roundings on another number of ranks. Empty: it has not.
[[nodiscard]] std::string ranks_note(Blueprint const& blueprint);

/// Where many micro-steps are added up in 16 bits: what is lost, and which key keeps it. Empty otherwise.
[[nodiscard]] std::string sum_warning(Settings const& settings);

/// Where sums of 16 bits are rounded twice because groups sum first: which key keeps what that loses. Empty otherwise.
[[nodiscard]] std::string two_level_note(Settings const& settings);

/// What of it engines on such devices do not do: which key, its value, and what to set instead. Empty: they do all.
[[nodiscard]] std::string refused_offload(OffloadSettings const& offload, DeviceKind device);

/// Why `transport` cannot keep zeroth.same_bits_at_any_ranks, where that is asked for. Empty: it can.
[[nodiscard]] std::string refused_same_bits(Settings const& settings, comm::Transport transport);

/// Where memory for tiles, or for gathered units, takes much of what offloading saves: which key makes it less. Empty
/// otherwise.
[[nodiscard]] std::string offload_note(Settings const& settings, shard::MemoryPlan const& plan);
/// Likewise of parameters on a disk, by their buffers.
[[nodiscard]] std::string parameters_note(Settings const& settings, shard::MemoryPlan const& plan);

/// Where ranks of a group are on several machines, given what is the same for ranks of one, by rank: which group, on
/// how many, and what that is slow at. Empty otherwise, and where nothing is done by groups.
[[nodiscard]] std::string crossing_warning(Settings const& settings, std::span<std::uint64_t const> machines);

}  // namespace zeroth::engine
