// SPDX-License-Identifier: Apache-2.0
#include "engine/step_accumulator.hpp"

#include <chrono>
#include <utility>

namespace zeroth::engine {

void StepAccumulator::add_loss(float mean, float weight) noexcept {
  if (weight > 0) {
    sums_.loss += static_cast<double>(weight) * static_cast<double>(mean);
    sums_.weight += static_cast<double>(weight);
  }
}

void StepAccumulator::add_loss(float const* mean_on_device, float weight) {
  if (weight > 0) {
    losses_.push_back({mean_on_device, static_cast<double>(weight)});
    sums_.weight += static_cast<double>(weight);
  }
}

optim::StepSums StepAccumulator::sums(bool stop, double seconds) const noexcept {
  auto sums = sums_;
  sums.stop = stop ? 1 : 0;
  sums.seconds = seconds;
  sums.call_hash = call_logs_[parity_].hash();
  return sums;
}

void StepAccumulator::set_parity(std::size_t parity) noexcept {
  if (parity != parity_) {
    std::swap(call_logs_[0], call_logs_[1]);
    parity_ = parity;
  }
}

void StepAccumulator::close(std::int64_t step, EngineCounters const& now) {
  StepReport owed;
  owed.step = step;
  owed.step_ms = std::chrono::duration<double, std::milli>(now.now - before_.now).count();
  owed.exposed_comm_ms = now.waited_ms - before_.waited_ms;
  owed.exposed_io_ms = now.io_ms - before_.io_ms;
  owed.save_ms = now.save_ms - before_.save_ms;
  owed.activation_ms = now.activation_ms - before_.activation_ms;
  owed.bubble_ms = now.bubble_ms - before_.bubble_ms;
  owed.gathered_bytes = now.gathered.all - before_.gathered.all;
  owed.gathered_across_groups_bytes = now.gathered.across_groups - before_.gathered.across_groups;
  owed.reduced_bytes = now.reduced.all - before_.reduced.all;
  owed.reduced_across_groups_bytes = now.reduced.across_groups - before_.reduced.across_groups;
  owed.disk_read_bytes = now.disks.read_bytes - before_.disks.read_bytes;
  owed.disk_written_bytes = now.disks.written_bytes - before_.disks.written_bytes;
  owed.prefetch_misses = now.prefetch_misses - before_.prefetch_misses;
  owed.parameter_slots_used = now.parameter_slots;
  owed.gradient_slots_used = now.gradient_slots;
  owed_ = owed;
  before_ = now;
  sums_ = {};
  losses_.clear();
  parity_ = 1 - parity_;
  call_logs_[parity_].clear();
}

std::optional<StepAccumulator::Owed> StepAccumulator::take_owed() noexcept {
  if (!owed_) {
    return std::nullopt;
  }
  auto const parity = 1 - parity_;
  return Owed{*std::exchange(owed_, std::nullopt), parity, &call_logs_[parity]};
}

}  // namespace zeroth::engine
