// SPDX-License-Identifier: Apache-2.0
/// What a step adds up until step() closes it: losses, weights, calls, and the report that is owed for it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/call_log.hpp"
#include "shard/moved_bytes.hpp"
#include "zeroth/device/timeline.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::engine {

/// What an engine has done since it was built.
struct EngineCounters {
  Clock::time_point now;
  double waited_ms = 0;  ///< Of the compute stream, for communication.
  double io_ms = 0;      ///< Of updates and gathers, for what is offloaded by this rank.
  double save_ms = 0;    ///< Of updates, for saves.
  double bubble_ms = 0;  ///< Of actions, for neighbouring stages.
  shard::MovedBytes gathered, reduced;
  shard::DiskTraffic disks;
  std::int64_t prefetch_misses = 0;
  int parameter_slots = 0, gradient_slots = 0;  ///< High-water marks.
};

class StepAccumulator {
 public:
  explicit StepAccumulator(EngineCounters const& start) noexcept : before_{start} {}

  void add_loss(float mean, float weight) noexcept;
  void add_loss(float const* mean_on_device, float weight);
  void add_metric(std::size_t index, double sum, double weight) noexcept {
    sums_.metrics[index].sum += sum;
    sums_.metrics[index].weight += weight;
  }
  /// Calls since the last step.
  [[nodiscard]] CallLog& call_log() noexcept { return call_logs_[parity_]; }
  /// What this rank adds to the sums of all.
  [[nodiscard]] optim::StepSums sums(bool stop) const noexcept;
  /// Losses that the device knows, beside those in sums().
  [[nodiscard]] std::span<optim::LossTerm const> losses() const noexcept { return losses_; }
  /// Which of two places results of this step go to: the report of the one before may not have been read.
  [[nodiscard]] std::size_t parity() const noexcept { return parity_; }

  /// Step `step` is done, and a report is owed for it.
  void close(std::int64_t step, EngineCounters const& now);
  /// What a report waits for.
  struct Owed {
    StepReport report;  ///< Without what the device knows.
    std::size_t parity = 0;
    CallLog const* call_log = nullptr;  ///< Until the next close().
  };
  [[nodiscard]] std::optional<Owed> take_owed() noexcept;
  [[nodiscard]] bool owes() const noexcept { return owed_.has_value(); }

 private:
  optim::StepSums sums_;
  std::vector<optim::LossTerm> losses_;
  std::array<CallLog, 2> call_logs_;
  std::size_t parity_ = 0;
  EngineCounters before_;
  std::optional<StepReport> owed_;
};

}  // namespace zeroth::engine
