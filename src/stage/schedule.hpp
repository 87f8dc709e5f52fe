// SPDX-License-Identifier: Apache-2.0
/// The one schedule that drives the shard manager at every stage: it decides when states move.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shard/layout.hpp"
#include "shard/shard_manager.hpp"
#include "stage/buckets.hpp"
#include "stage/gathers.hpp"
#include "stage/held_buckets.hpp"
#include "stage/order.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// The name of a turn in messages: "evaluation", or the name of its phase.
[[nodiscard]] std::string_view purpose_of(Turn const& turn) noexcept;

/// The parts of the settings that the schedule uses. Slots and limits can be computed for any world without a job, as a
/// plan does.
struct ScheduleLimits {
  shard::SlotCounts parameter_slots, gradient_slots;  ///< No slots if the state is whole.
  std::int64_t bucket_count = 0;                      ///< Maximum elements in a bucket, unless a single unit has more.
  int bucket_units = 0;                               ///< Maximum units in a bucket.
  std::vector<Sweep> training;                        ///< Sweeps, as in Order: with a pipeline, those of a step.
  std::int64_t turns = 0;                             ///< Total turns of all sweeps.
  PrefetchShortage shortage;
};
[[nodiscard]] ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings,
                                       std::vector<Sweep> training);
/// Limits for the sweeps of a micro-step.
[[nodiscard]] ScheduleLimits limits_of(shard::Layout const& layout, Settings const& settings);

/// The budget for gathering units ahead. Not used if parameters are whole.
[[nodiscard]] PrefetchBudget budget_of(Settings const& settings);

/// Turns the caller's turns of a pass, in their order, into prefetches, waits, releases and reductions. The same calls
/// on every rank give the same transactions on every rank.
class Schedule {
 public:
  Schedule(shard::Layout const& layout, Settings const& settings, ScheduleLimits const& limits,
           shard::ShardManager& manager);

  /// `passes_left` passes, this one included, follow without an update between them. `reduces`: gradients that this
  /// pass completes are reduced; `last`: for the last time before the update.
  void begin_pass(PassKind pass, int passes_left, bool reduces, bool last);
  /// Begins sweep number `sweep` of ScheduleLimits::training, of which a step runs all. Only the sweep's units have
  /// turns.
  void begin_sweep(std::size_t sweep, bool reduces, bool last);
  /// Call before begin_pass() of a micro-step.
  void set_run(shard::Run run, std::int64_t step) noexcept { manager_->gradients.begin_pass(run, step); }
  /// Makes the unit's parameters readable on the compute stream, and in backward its gradients writable. Starts gathers
  /// for the next units before it waits for this one. The backward turns of units that stay open may begin at another
  /// time on each rank, once all forward turns before the loss are over.
  void open(Turn const& turn);
  void close(Turn const& turn);
  /// Completes a unit's last backward turn that came too late to write gradients and needs no parameters.
  void pass_over(Turn const& turn);
  /// Reduces the remaining gradients. Every unit of the pass must have had all its backward turns.
  void end_pass();
  /// Updates every unit in forward order. Each update is followed by publishing, and by the first gathers of the next
  /// pass. If updates are delayed, this one stays pending: each unit is updated and published once the next step's
  /// passes have used it for the last time.
  void update();
  /// Drops all gathered parameters, and gathers those that forward uses first: into the same slots, whatever happened
  /// before. Call between steps, or have update() end so from now on, so that all steps enqueue the same. Collective.
  void start_over();
  void set_starts_over(bool starts_over) noexcept { starts_over_ = starts_over; }
  /// Applies the pending update, if there is one. Call between steps. Collective.
  void settle();
  /// After a failure: nothing more is reduced.
  void abandon() noexcept {
    buckets_.reset();
    held_.clear();
  }

  [[nodiscard]] Order const& order() const noexcept { return gathers_.order(); }
  [[nodiscard]] std::int64_t prefetch_misses() const noexcept { return gathers_.misses(); }

 private:
  void publish();
  void apply_owed(std::span<shard::FlatId const> flats);
  void begin(bool reduces, bool last);
  void begin_backward(std::string_view purpose);
  void expect_one_order(bool good, std::span<shard::FlatId const> flats) const;
  void reduce(Buckets::Bucket bucket);
  void reduce_held();
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
  HeldBuckets held_;
  bool one_order_;         // gathers and reductions must begin in one order on all ranks, because they wait for each
                           // other
  int open_backward_ = 0;  // guards of units that do not stay open
  bool reduces_ = false, last_ = false, ends_step_ = false, went_back_ = false;
  bool starts_over_ = false;
  bool owed_ = false;                                // the last step's update is pending; some units may have it
  ById<shard::FlatId, std::size_t> users_left_;      // units whose backward turns are not over
  ById<shard::FlatId, std::size_t> to_begin_;        // those of them whose last turn has not begun
  std::vector<UnitId> forward_;                      // turns of this pass before backward
  std::vector<shard::FlatId> updated_, persistent_;  // updated, and not published yet
};

}  // namespace zeroth::stage
