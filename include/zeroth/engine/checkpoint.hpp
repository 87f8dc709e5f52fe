// SPDX-License-Identifier: Apache-2.0
/// Options and results of AnyEngine::save() and restore(). docs/checkpoints.md describes the files.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/data/sample_order.hpp"

namespace zeroth {

namespace detail {
class EngineState;
}

/// Options of a save; the same on all ranks, except for the bytes of `program_state` and `rank_state`.
struct SaveOptions {
  /// Max bytes of `program_state`.
  static constexpr std::int64_t largest_program_state = checkpoint::largest_program_state;
  /// The program's own bytes, which restore() returns: rank 0's, at most 1 MiB. Copied.
  std::span<std::byte const> program_state{};
  /// This rank's own bytes, such as the position of its data loader, of any size. On all ranks or on none; empty ones
  /// count. Copied, in host memory, until the save ends. checkpoint::read_rank_state() reads them.
  std::optional<std::span<std::byte const>> rank_state{};
  /// The order of the program's data. restore() rejects a different one.
  std::optional<SampleOrder> order{};
  /// Number of newest checkpoints to keep; 0 keeps all. Default: zeroth.checkpoint.keep.
  std::optional<std::int64_t> keep{};
  /// Also keep checkpoints of steps that are multiples of this; 0: none.
  std::int64_t keep_every = 0;
  /// Also keep checkpoints that were saved less than this long ago; 0: none.
  std::chrono::seconds keep_for{0};
};

/// A handle to a save that was started; copyable. The engine must outlive its use.
class ZEROTH_EXPORT Saving {
 public:
  /// Whether the save has finished or failed, as far as this rank knows. All ranks agree after the same step(). Not
  /// collective.
  [[nodiscard]] bool done() const noexcept;
  /// Blocks until the checkpoint is committed. Call it between passes. Collective. If the save failed, all ranks throw
  /// SystemError, naming rank, file and reason; training may continue.
  void wait();
  /// Why the save failed; nullopt if it did not, or is not done(). Once this has returned a reason, the next save() and
  /// finish() do not throw it. Call it on all ranks after the same step(), or on none: the next step tells ranks that
  /// differ. It communicates nothing.
  [[nodiscard]] std::optional<std::string> failure();
  /// The path of the committed checkpoint.
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  friend class AnyEngine;
  Saving(detail::EngineState& engine, std::int64_t number, std::filesystem::path path)
      : engine_{&engine}, number_{number}, path_{std::move(path)} {}
  detail::EngineState* engine_;
  std::int64_t number_;
  std::filesystem::path path_;
};

/// The parts of a checkpoint that are restored.
enum class RestoreOf : std::uint8_t {
  everything,  ///< Parameters, optimizer states and progress: training resumes where it was saved.
  weights      ///< Parameters alone, and averages (zeroth.ema.decay) become them. Optimizer states and progress stay.
};

/// Options of a restore; the same on all ranks.
struct RestoreOptions {
  /// The order of the program's data. A checkpoint saved with a different one is rejected.
  std::optional<SampleOrder> order{};
  /// Round states of another dtype to the engine's. The resumed run then differs from the saved one.
  bool convert = false;
  /// If there are checkpoints and all are damaged, restore_latest() returns nullopt, with warnings. Otherwise it
  /// throws, because a program that starts over would replace checkpoints that might be repaired. Each checkpoint is
  /// read twice then, first to check its hashes only, because a restore that has changed states cannot start over.
  bool start_over_if_all_damaged = false;
  RestoreOf of = RestoreOf::everything;  ///< The parts to restore.
  /// Returns the name that a parameter of the model has in the checkpoint, or nullopt for a parameter that keeps its
  /// values and states. Without a function names are the model's. Called for every parameter, on every rank.
  std::function<std::optional<std::string>(std::string const& name)> saved_name{};
  /// Parameters and states that only the model has keep their values, and those that only the checkpoint has are passed
  /// over. The log lists both. Otherwise both are errors.
  bool partial = false;
  /// Called on every rank, with the bytes that it has read so far and all that it will read, while states are read:
  /// WorkBar::set() shows them. It must not throw.
  std::function<void(std::int64_t done, std::int64_t all)> progress{};
};

/// The position at which training resumes; with RestoreOf::weights the one that the checkpoint has.
struct Restored {
  std::filesystem::path path;  ///< The checkpoint's path.
  std::int64_t step = 0;       ///< Steps completed so far.
  /// Samples used by those steps, over all ranks; also the index of the next step's first sample.
  std::int64_t samples = 0;
  std::vector<std::byte> program_state;  ///< SaveOptions::program_state, on all ranks.
  /// The ranks that saved. If the save had SaveOptions::rank_state, each of them has one in the checkpoint.
  checkpoint::SavedRanks ranks{};
};

}  // namespace zeroth
