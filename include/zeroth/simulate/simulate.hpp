// SPDX-License-Identifier: Apache-2.0
/// A step without the machine: the real engine, its policies, slots and buckets, on a device that has no memory and a
/// clock that only adds up what work would take.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "zeroth/config/config.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/device/memory.hpp"
#include "zeroth/device/timeline.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/model/model.hpp"
#include "zeroth/simulate/machine.hpp"

namespace zeroth::simulate {

/// Floating-point operations of one rank in one forward and one backward turn of a unit: in each, where a micro-step
/// has several.
struct UnitWork {
  double forward_flops = 0;    ///< Useful ones, as in the next.
  double backward_flops = 0;   ///< Without recomputation.
  double recompute_flops = 0;  ///< What of forward is done again inside backward; not counted as useful.
  /// The part of forward_flops that is attention's. Of backward it is the same part; of recompute_flops as many, or
  /// all.
  double attention_flops = 0;
  double activation_elements = 0;  ///< Elements of one pass over activations, CodeRates::activation_passes.
  double matrix_elements = 0;      ///< Likewise over matrices, CodeRates::parameter_passes.
  /// The part of backward_flops that code with CodeRates::tensor_overlap has beside sums over tensor ranks: gradients
  /// of matrices that begin a pair. None of it is attention's.
  double overlapped_flops = 0;
  double recompute_sums = 0;  ///< What recomputation repeats of forward's sums over tensor ranks: 0 to 1.
};

/// An axis of a Mesh.
enum class MeshAxis : std::uint8_t {
  tensor,    ///< Ranks that divide parameters.
  data,      ///< Ranks of a stage that have the same part.
  pipeline,  ///< Stages.
};
/// "tensor", "data" or "pipeline".
[[nodiscard]] constexpr std::string_view name_of(MeshAxis axis) noexcept {
  return axis == MeshAxis::tensor ? "tensor" : axis == MeshAxis::data ? "data" : "pipeline";
}
/// The axes of a mesh, nearest first: along the first one ranks are neighbours on a node, along the last one they are
/// farthest from each other.
using Nearness = std::array<MeshAxis, 3>;

/// What is simulated, and kept.
struct Options {
  /// Simulates every rank, each on a thread, instead of rank 0 with all others at its pace: with a pipeline, of the
  /// first rank of each stage with those of its stage at its pace.
  bool all_ranks = false;
  /// Rank to factor: its math takes this many times as long. Needs all_ranks. Tensor ranks that add up together go at
  /// the pace of the slowest.
  std::map<int, double> slowdown = {};
  /// Mesh's own, unless said otherwise. Throws ContractError where an axis is missing.
  Nearness nearness = {MeshAxis::tensor, MeshAxis::data, MeshAxis::pipeline};
  bool timelines = false;  ///< Keep them; they take memory.
};

/// The first rank of a stage of a pipeline.
struct SimulatedStage {
  double tensor_ms = 0;         ///< In which it waits for what tensor ranks add up.
  double bubble_ms = 0;         ///< In which it waits for other stages: for messages, and where a step is decided.
  double exposed_comm_ms = 0;   ///< Beside both; see StepReport, as is the next.
  double exposed_io_ms = 0;     ///< What nothing hid of the disk.
  std::int64_t bytes_sent = 0;  ///< In a step, over all links.
  MemoryBytes memory;           ///< What its ledger saw at most.
};

/// A rank that was simulated. With tensor ranks it is the first of those that add up together, and stands for them.
struct SimulatedPace {
  int rank = 0;         ///< In the job.
  double slowdown = 1;  ///< See Options: of the slowest that it stands for.
};

/// Of the last of a few steps, when slots and streams have settled. With a pipeline times are means over its stages,
/// bytes those of the stage that has most.
struct Simulation {
  StepReport report;                     ///< Of rank 0; loss and norm mean nothing.
  double step_ms = 0;                    ///< See StepReport.
  double tensor_ms = 0;                  ///< See SimulatedStage, as is the next.
  double exposed_comm_ms = 0;            ///< What nothing hid of the rest.
  double exposed_io_ms = 0;              ///< Likewise, of the disk.
  double bubble_ms = 0;                  ///< See SimulatedStage.
  double mfu = 0;                        ///< Useful operations per second over Machine::peak() of the compute dtype.
  std::int64_t bytes_sent = 0;           ///< By rank 0 in a step, over all links.
  MemoryBytes memory;                    ///< What its ledger saw at most.
  std::vector<SimulatedStage> pipeline;  ///< By stage, where there are several.
  std::vector<SimulatedPace> ranks;      ///< That were simulated.
  std::vector<Timeline> timelines;       ///< Of each, if asked for: what ran in the step, which begins at 0.
};

/// `work` by unit, in the model's order. Costs time and memory by units and parameters, not by elements. Throws what
/// Engine throws, and ContractError if `work` or `options` do not fit the model and the world.
[[nodiscard]] ZEROTH_EXPORT Simulation run(Model const& model, Config const& config, int world,
                                           std::span<UnitWork const> work, Machine const& machine,
                                           Options const& options = {});

/// Bytes that a rank sends in one step, all micro-steps and the update together: counted in runs of at most three
/// micro-steps; what each one more sends is the same, so that many cost no more than three. Depends on no machine.
/// Throws what plan() throws, and ConfigError if a step would send more than 64 bits can count.
[[nodiscard]] ZEROTH_EXPORT std::int64_t bytes_sent_per_step(Model const& model, Config const& config, int world);

}  // namespace zeroth::simulate
