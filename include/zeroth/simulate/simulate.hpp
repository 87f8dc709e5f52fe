// SPDX-License-Identifier: Apache-2.0
/// Simulates a step: the real engine with its policies, slots and buckets, on a device without memory whose clock adds
/// up the time that work would take.
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

/// Floating-point operations of one rank in one forward and one backward visit of a unit.
struct UnitWork {
  double forward_flops = 0;    ///< Model FLOPs of forward.
  double backward_flops = 0;   ///< Model FLOPs of backward, without recomputation.
  double recompute_flops = 0;  ///< Forward's operations that backward repeats; not model FLOPs.
  /// The part of forward_flops that is attention's. Backward has the same fraction. recompute_flops contains as many,
  /// or consists of attention only.
  double attention_flops = 0;
  double activation_elements = 0;  ///< Elements of one activation pass: see CodeRates::activation_passes.
  double matrix_elements = 0;      ///< Elements of one pass over matrices: see CodeRates::parameter_passes.
  /// The part of backward_flops that overlaps sums over tensor ranks with CodeRates::tensor_overlap: gradients of the
  /// matrices that begin a pair. It contains none of attention's operations.
  double overlapped_flops = 0;
  double recompute_sums = 0;  ///< Fraction of forward's sums over tensor ranks that recomputation repeats, 0 to 1.
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
/// The axes of a mesh, nearest first: ranks along the first axis are neighbours on a node, and ranks along the last one
/// are farthest apart.
using Nearness = std::array<MeshAxis, 3>;

/// Options of a simulation and its results.
struct Options {
  /// Simulate every rank, each on a thread. Otherwise only rank 0 is simulated, or the first rank of each pipeline
  /// stage, and the others (of its stage) are assumed to run at the same pace. With parameter servers all workers and
  /// the first server are simulated either way, and the other servers are assumed to do what the first one does.
  bool all_ranks = false;
  /// Factors by rank: a rank's math takes this many times as long. Needs all_ranks. Tensor ranks that add up together
  /// run at the pace of the slowest. Parameter servers have no math.
  std::map<int, double> slowdown = {};
  /// Order of the axes; by default the order of Mesh. Throws ContractError if an axis is missing.
  Nearness nearness = {MeshAxis::tensor, MeshAxis::data, MeshAxis::pipeline};
  bool timelines = false;  ///< Keep timelines; they need memory.
};

/// The first rank of a pipeline stage.
struct SimulatedStage {
  double tensor_ms = 0;         ///< Time that it waits for sums over tensor ranks.
  double bubble_ms = 0;         ///< Time that it waits for other stages: for messages, and for the decision of a step.
  double exposed_comm_ms = 0;   ///< See StepReport; does not include tensor_ms and bubble_ms.
  double exposed_io_ms = 0;     ///< See StepReport.
  std::int64_t bytes_sent = 0;  ///< Per step, over all links.
  MemoryBytes memory;           ///< Peak in its ledger.
};

/// A parameter server.
struct SimulatedServer {
  std::int64_t bytes_sent = 0;  ///< Per step, to all workers; over the decisions of steps as well.
  MemoryBytes memory;           ///< Peak in its ledger.
};

/// A rank that was simulated. It stands for all tensor ranks that add up with it; it is the first of them.
struct SimulatedPace {
  int rank = 0;         ///< In the job.
  double slowdown = 1;  ///< See Options::slowdown; the factor of the slowest rank that it stands for.
};

/// The last of a few simulated steps, when slots and streams have settled. In a pipeline, times are means over stages,
/// and bytes are those of the stage with most. With zeroth.parameter_server.staleness above 0 no step is like another:
/// times are means over several steps of all workers.
struct Simulation {
  StepReport report;                     ///< Rank 0's report; loss and norm are meaningless.
  double step_ms = 0;                    ///< See StepReport.
  double tensor_ms = 0;                  ///< See SimulatedStage.
  double exposed_comm_ms = 0;            ///< See SimulatedStage.
  double exposed_io_ms = 0;              ///< See StepReport.
  double bubble_ms = 0;                  ///< See SimulatedStage.
  double mfu = 0;                        ///< Model FLOPs per second over Machine::peak() of the compute dtype.
  std::int64_t bytes_sent = 0;           ///< By rank 0 per step, over all links.
  MemoryBytes memory;                    ///< Peak in its ledger.
  std::vector<SimulatedStage> pipeline;  ///< Stages, if there are several.
  SimulatedServer server;                ///< The first parameter server, if there are any.
  std::vector<SimulatedPace> ranks;      ///< The ranks that were simulated, servers excluded.
  std::vector<Timeline> timelines;       ///< By simulated rank, if requested: the spans of the step, which begins at 0.
};

/// Simulates steps. `work` has one entry per unit, in model order. Cost in time and memory depends on units and
/// parameters, not on elements. Throws what Engine throws, and ContractError if `work` or `options` do not fit the
/// model and the world.
[[nodiscard]] ZEROTH_EXPORT Simulation run(Model const& model, Config const& config, int world,
                                           std::span<UnitWork const> work, Machine const& machine,
                                           Options const& options = {});

/// Bytes that a rank sends in one step, over all micro-steps and the update. Simulates at most three micro-steps: each
/// further one sends as much as the third, so many cost no more than three. Does not depend on a machine. Throws what
/// plan() throws, and ConfigError if the number exceeds 64 bits.
[[nodiscard]] ZEROTH_EXPORT std::int64_t bytes_sent_per_step(Model const& model, Config const& config, int world);

}  // namespace zeroth::simulate
