// SPDX-License-Identifier: Apache-2.0
/// Asynchronous saves, as an engine's calls drive them. Ranks agree on the outcome through the sums of later steps, or
/// by a direct gather if no step follows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/arrangement.hpp"
#include "checkpoint/commit.hpp"
#include "checkpoint/saver.hpp"
#include "engine/rank_result.hpp"
#include "zeroth/engine/checkpoint.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::engine {

/// The saves of one engine. Made by the first save; calls come in the same order on all ranks.
class Checkpoints {
 public:
  explicit Checkpoints(detail::EngineState& engine);
  Checkpoints(Checkpoints const&) = delete;
  Checkpoints& operator=(Checkpoints const&) = delete;
  ~Checkpoints();

  /// Starts a save into `folder` and returns its number. No other save may be running.
  std::int64_t save(std::filesystem::path const& folder, SaveOptions const& options);
  [[nodiscard]] std::filesystem::path path() const;
  [[nodiscard]] bool done(std::int64_t number) const noexcept { return !save_ || number_ > number; }
  /// Adds this rank's save state to the sums of a step.
  void add_to(optim::StepSums& sums) const;
  /// Acts on `total`, the sums of `step`, and returns whether the running save has failed. Collective if they say that
  /// a rank failed.
  bool see(std::int64_t step, optim::StepSums const& total);
  /// Waits for a running save. Collective.
  void settle();
  /// Throws the error of the last finished save, unless it was thrown before.
  void rethrow();
  /// Throws the error of save `number`, even if it was thrown before.
  void rethrow(std::int64_t number);
  /// The error of save `number`, which rethrow() does not throw any more; nullopt without one.
  [[nodiscard]] std::optional<std::string> take_failure(std::int64_t number);
  /// Waits until this rank's states have been read and may be overwritten.
  void await_read();
  /// Total milliseconds that updates have waited for a save.
  [[nodiscard]] double waited_ms() const noexcept { return waited_ms_; }
  /// See checkpoint::Saver.
  [[nodiscard]] std::int64_t staging_bytes() const noexcept { return saver_.staging_bytes(); }

 private:
  struct Save;
  void await_read(std::size_t count);
  bool await_sources(std::size_t count);
  void note_position();
  void await_all();
  void commit();
  [[nodiscard]] RankResult result() const;
  void end(std::vector<RankResult> const& results);

  detail::EngineState& engine_;
  int const place_;                             // number of this rank's file; rank 0 writes file 0
  checkpoint::Arrangement arrangement_;         // of the ranks that share states with this one
  std::optional<checkpoint::Contents> of_all_;  // on rank 0 of a mesh
  std::unique_ptr<Save> save_;                  // the running save
  std::int64_t number_ = 0;                     // of the last save
  std::exception_ptr failure_;                  // error of a finished save
  std::int64_t failed_number_ = 0;              // the save that failed with it
  bool told_ = true;                            // whether failure_ was thrown
  double waited_ms_ = 0;
  checkpoint::KnownFiles known_;  // used by the saver's thread
  checkpoint::Saver saver_;       // destroyed first: its thread uses all of the rest
};

}  // namespace zeroth::engine
