/// The stage file as types: every value resolved, none optional. What the layers below the file work from.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>

#include "zeroth/core/dtype.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth {

/// When gradients leave a rank: after every micro-step, or once, after they were summed up locally.
enum class ReduceGradients : std::uint8_t { every_micro_step, last_micro_step };

/// Samples. train == micro * accumulation * world.
struct BatchSettings {
  std::int64_t train = 1, micro = 1, accumulation = 1;
};

/// The dtypes, each named: what the math reads, what backward writes, what travels, what reductions are summed into,
/// what updates are added to, and Adam's moments. The last two are fp32, or bf16 and rounded stochastically.
struct PrecisionSettings {
  Dtype compute = Dtype::fp32;
  Dtype gradient = Dtype::fp32;
  Dtype reduce = Dtype::fp32;
  Dtype accumulate = Dtype::fp32;
  Dtype master = Dtype::fp32;   ///< bf16 only where compute is.
  Dtype moments = Dtype::fp32;  ///< bf16 only where the master is.
  /// Whether there is a master beside the parameters; otherwise they are it.
  [[nodiscard]] bool has_master() const noexcept { return master != compute; }
};

struct Settings {
  int stage = 0;
  BatchSettings batch;
  PrecisionSettings precision;
  ReduceGradients reduce_gradients = ReduceGradients::last_micro_step;
  bool reduce_gradients_given = false;  ///< By the file; otherwise it follows from the stage.
  /// Micro-steps whose gradients are 16 bits and are reduced once are added up on the rank in fp32, beside what
  /// backward writes; otherwise backward adds to what it wrote before.
  bool sums_micro_steps = false;

  std::int64_t reduce_bucket_count = 500'000'000;  ///< Elements.
  std::int64_t prefetch_count = 50'000'000;        ///< Elements ahead of the unit in use. 0: no prefetch.
  std::int64_t max_live_count = 1'000'000'000;     ///< Elements gathered at once; the unit in use always fits.
  int gradient_slots = 2;                          ///< Units whose full gradients are held at once, stages 2 and 3.
  bool overlap_comm = false;

  optim::StepRules rules;  ///< Optimizer, schedule, loss scale, clipping. gradient_prescale is the engine's to set.

  std::chrono::milliseconds timeout{600'000};
  bool check = false;                     ///< Compare transactions in every step, and replicas every 100.
  bool single_communicator = false;       ///< Of gathers and reductions, which then take turns.
  bool copy_engine_gather = false;        ///< See comm::CommOptions::copy_engine.
  bool poison = false;                    ///< Fill with NaN what is no longer valid, and let guards hand out copies.
  std::filesystem::path flight_recorder;  ///< Folder for the record of the last collectives; empty: the working folder.
};

}  // namespace zeroth
