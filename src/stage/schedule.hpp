// SPDX-License-Identifier: Apache-2.0
/// When states move: the one schedule that drives the shard manager at every stage.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shard/layout.hpp"
#include "shard/shard_manager.hpp"
#include "stage/buckets.hpp"
#include "stage/gathers.hpp"
#include "stage/order.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// What messages call a turn: "evaluation", or the name of its phase.
[[nodiscard]] std::string_view purpose_of(Turn const& turn) noexcept;

/// What the schedule takes from the settings. Slots and limits of a world without a job: what a plan shows.
struct ScheduleLimits {
  shard::SlotCounts parameter_slots, gradient_slots;  ///< No slots where the state is whole.
  std::int64_t bucket_count = 0;                      ///< Elements in a bucket, unless a single unit has more.
  int bucket_units = 0;                               ///< Units in a bucket.
  std::vector<Sweep> training;                        ///< See Order. Those of a step, where there is a pipeline.
  std::int64_t turns = 0;                             ///< Of all sweeps.
  PrefetchShortage shortage;
};
[[nodiscard]] ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings,
                                       std::vector<Sweep> training);
/// With the sweeps of a micro-step.
[[nodiscard]] ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings);

/// Units are gathered ahead by that. Nothing is where parameters are whole.
[[nodiscard]] PrefetchBudget budget_of(Settings const& settings);

/// Turns of a pass, in the order in which the caller takes them, become gathers ahead, waits, releases and reductions.
/// The same calls on every rank give the same transactions on every rank.
class Schedule {
 public:
  Schedule(shard::Layout const& layout, Settings const& settings, ScheduleLimits const& limits,
           shard::ShardManager& manager);

  /// `passes_left`, this one included, will follow without an update between them. `reduces`: gradients that this pass
  /// completes are reduced; `last`: for the last time before the update.
  void begin_pass(PassKind pass, int passes_left, bool reduces, bool last);
  /// The same for sweep number `sweep` of ScheduleLimits::training, those of a step. Its units alone have turns.
  void begin_sweep(std::size_t sweep, bool reduces, bool last);
  /// Before begin_pass() of a micro-step.
  void set_run(shard::Run run, std::int64_t step) noexcept { manager_->gradients.begin_pass(run, step); }
  /// The unit's parameters become readable on the compute stream; in backward it can take gradients. Gathers what comes
  /// next before it waits for what is needed now. The backward turns of units that stay open may begin at another time
  /// on each rank, as long as all forward turns before the loss are over.
  void open(Turn const& turn);
  void close(Turn const& turn);
  /// A unit's last backward turn, which came too late to take gradients and does not need parameters.
  void pass_over(Turn const& turn);
  /// Sends what is left. Every unit of the pass has had all its backward turns.
  void end_pass();
  /// The update of every unit, in forward order, with publishing and the first gathers of the next pass right behind.
  void update();
  /// After a failure: nothing more is sent.
  void abandon() noexcept { buckets_.reset(); }

  [[nodiscard]] Order const& order() const noexcept { return gathers_.order(); }
  [[nodiscard]] std::int64_t prefetch_misses() const noexcept { return gathers_.misses(); }

 private:
  void publish();
  void begin(bool reduces, bool last);
  void begin_backward(std::string_view purpose);
  void expect_one_order(bool good, std::span<shard::FlatId const> flats) const;
  void reduce(Buckets::Bucket bucket);
  void flush_for(shard::FlatId flat);
  void open_gradients(Turn const& turn);
  void take_gradient_slots(UnitId unit);
  void close_gradients(Turn const& turn);

  shard::Layout const* layout_;
  Settings settings_;
  shard::ShardManager* manager_;
  Gathers<shard::Parameters> gathers_;
  std::int64_t bucket_count_;
  Buckets buckets_;
  bool one_order_;         // gathers and reductions must begin in one order on all ranks: they wait for each other
  int open_backward_ = 0;  // guards of units that do not stay open
  bool reduces_ = false, last_ = false, ends_step_ = false, went_back_ = false;
  ById<shard::FlatId, std::size_t> users_left_;      // units whose backward turns are to come or not over
  ById<shard::FlatId, std::size_t> to_begin_;        // of these, those whose last turn has not begun
  std::vector<UnitId> forward_;                      // turns of this pass before backward
  std::vector<shard::FlatId> updated_, persistent_;  // and not published yet
};

}  // namespace zeroth::stage
