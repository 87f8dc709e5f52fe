// SPDX-License-Identifier: Apache-2.0
/// Values that a step accumulates until step() closes it: losses, weights, calls, and the pending report.
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

/// Totals since the engine was built.
struct EngineCounters {
  Clock::time_point now;
  double waited_ms = 0;      ///< Time that the compute stream waited for communication.
  double io_ms = 0;          ///< Time that updates and gathers waited for I/O of this rank's offloaded states.
  double save_ms = 0;        ///< Time that updates waited for saves.
  double activation_ms = 0;  ///< Time that the compute stream waited for the program's offloaded activations.
  double bubble_ms = 0;      ///< Time that actions waited for neighbouring stages.
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
  /// This rank's contribution to the sums over ranks; see StepSums::stop and StepSums::seconds.
  [[nodiscard]] optim::StepSums sums(bool stop, double seconds) const noexcept;
  /// Losses in device memory, not included in sums().
  [[nodiscard]] std::span<optim::LossTerm const> losses() const noexcept { return losses_; }
  /// Double-buffer index of this step's results, since the previous report may still be unread.
  [[nodiscard]] std::size_t parity() const noexcept { return parity_; }

  /// Gives the step that begins the double-buffer index `parity`. Call between steps, when no report is pending.
  void set_parity(std::size_t parity) noexcept;
  /// Ends step `step`, which then owes a report.
  void close(std::int64_t step, EngineCounters const& now);
  /// A pending report and the data that it needs.
  struct Owed {
    StepReport report;  ///< Without the values that the device computes.
    std::size_t parity = 0;
    CallLog const* call_log = nullptr;  ///< Valid until the next close().
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
