// SPDX-License-Identifier: Apache-2.0
/// What AnyEngine::save() and restore() take and give. docs/checkpoints.md has what lies on the disk.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/data/sample_order.hpp"

namespace zeroth {

namespace detail {
class EngineState;
}

/// The same on all ranks, but for `program_state`.
struct SaveOptions {
  /// Bytes of the next.
  static constexpr std::int64_t largest_program_state = checkpoint::largest_program_state;
  /// Whatever the program wants back from restore(): rank 0's, at most 1 MiB. Copied.
  std::span<std::byte const> program_state;
  /// Of the program's data: restore() refuses another one.
  std::optional<SampleOrder> order;
  /// Checkpoints that stay in the folder, the newest; 0: all. Empty: zeroth.checkpoint.keep of the stage file.
  std::optional<std::int64_t> keep;
  /// Beside those, the ones of steps that it divides; 0: no others.
  std::int64_t keep_every = 0;
};

/// A save that is under way. A handle: copy it, drop it. The engine outlives its calls.
class ZEROTH_EXPORT Saving {
 public:
  /// Whether it is over, well or not, as far as this rank was told: the same on all ranks after the same step(). Not
  /// collective.
  [[nodiscard]] bool done() const noexcept;
  /// Until the checkpoint has its name, on the disk. Collective, between passes. Throws SystemError on all ranks,
  /// naming rank, file and reason, if that failed; training goes on.
  void wait();
  /// What it is called once it is there.
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  friend class AnyEngine;
  Saving(detail::EngineState& engine, std::int64_t number, std::filesystem::path path)
      : engine_{&engine}, number_{number}, path_{std::move(path)} {}
  detail::EngineState* engine_;
  std::int64_t number_;
  std::filesystem::path path_;
};

/// The same on all ranks.
struct RestoreOptions {
  /// Of the program's data. A checkpoint that was saved with another one is refused.
  std::optional<SampleOrder> order;
  /// States of another dtype than the engine's are rounded to it. The run is then not the one that was saved any more.
  bool convert = false;
  /// restore_latest() returns nothing, with warnings, where checkpoints are there and all of them are damaged.
  /// Otherwise it throws: the program would begin anew, and its saves would take the place of what might be mended.
  /// Each is read twice then, first for its hashes alone, because what has changed states cannot start over.
  bool start_over_if_all_damaged = false;
};

/// Where training goes on.
struct Restored {
  std::filesystem::path path;            ///< Of the checkpoint.
  std::int64_t step = 0;                 ///< The last one that it has.
  std::int64_t samples = 0;              ///< That those steps took, over all ranks: the next one's first.
  std::vector<std::byte> program_state;  ///< SaveOptions::program_state, on all ranks.
};

}  // namespace zeroth
