// SPDX-License-Identifier: Apache-2.0
/// Saves beside training: what an engine's calls do about them, and how ranks agree, by the sums of steps that follow,
/// or face to face where none does.
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

/// Of one engine, from its first save on. Its calls come in the same order on all ranks.
class Checkpoints {
 public:
  explicit Checkpoints(detail::EngineState& engine);
  Checkpoints(Checkpoints const&) = delete;
  Checkpoints& operator=(Checkpoints const&) = delete;
  ~Checkpoints();

  /// Begins to save, into `folder`. None is under way. Returns its number.
  std::int64_t save(std::filesystem::path const& folder, SaveOptions const& options);
  [[nodiscard]] std::filesystem::path path() const;
  [[nodiscard]] bool done(std::int64_t number) const noexcept { return !save_ || number_ > number; }
  /// What this rank adds to the sums of a step.
  void add_to(optim::StepSums& sums) const;
  /// `total` are the sums of `step`: goes on as they say. Collective where they say that a rank failed.
  void see(std::int64_t step, optim::StepSums const& total);
  /// Ends what is under way. Collective, waits.
  void settle();
  /// Throws what the last save that is over has failed with, unless that was thrown before.
  void rethrow();
  /// The same of save `number`, also if it was.
  void rethrow(std::int64_t number);
  /// Waits until this rank's states have been read, and may be written to.
  void await_read();
  /// Milliseconds that updates have waited for a save, in all.
  [[nodiscard]] double waited_ms() const noexcept { return waited_ms_; }
  /// See checkpoint::Saver.
  [[nodiscard]] std::int64_t staging_bytes() const noexcept { return saver_.staging_bytes(); }

 private:
  struct Save;
  void await_read(shard::FlatId flat);
  bool await_sources(std::size_t count);
  void note_position();
  void await_all();
  void commit();
  [[nodiscard]] RankResult result() const;
  void end(std::vector<RankResult> const& results);

  detail::EngineState& engine_;
  int const place_;                             // this rank's file; rank 0 has that of place 0
  checkpoint::Arrangement arrangement_;         // of those that share states with this rank
  std::optional<checkpoint::Contents> of_all_;  // on rank 0 of a mesh
  std::unique_ptr<Save> save_;                  // under way
  std::int64_t number_ = 0;                     // of the last one
  std::exception_ptr failure_;                  // of a save that is over
  std::int64_t failed_number_ = 0;              // which one
  bool told_ = true;                            // somebody was
  double waited_ms_ = 0;
  checkpoint::KnownFiles known_;  // the saver's thread's
  checkpoint::Saver saver_;       // ends first: its thread uses all of the rest
};

}  // namespace zeroth::engine
