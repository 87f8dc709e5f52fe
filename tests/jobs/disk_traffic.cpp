// SPDX-License-Identifier: Apache-2.0
#include "jobs/disk_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zeroth::testing::jobs {
namespace {

bool in_declared_order(Choice const& choice) {
  return choice.is_plain("order") && choice.is_plain("skips units") && choice.is_plain("skips micro-steps") &&
         !choice.is("nested guards", "neighbours");
}

}  // namespace

DiskTraffic::DiskTraffic(Plan const& plan, Choice const& choice)
    : on_disk_{plan.bytes_on_disk()},
      read_{plan.disk.read_bytes + plan.parameters_disk.read_bytes},
      written_{plan.disk.written_bytes + plan.parameters_disk.written_bytes},
      plain_{in_declared_order(choice)} {}

void DiskTraffic::step_made(int step) {
  if (last_ == 0 || step <= last_) {  // a new engine, or one that resumes from an earlier step
    first_ = step;
  }
  last_ = step;
}

void DiskTraffic::disturb() { disturbed_.insert({last_, last_ + 1, last_ + 2}); }

std::string DiskTraffic::step_problem(StepReport const& report) const {
  bool const counts = plain_ && report.step > first_ && !disturbed_.contains(report.step) && !report.skipped;
  if (!counts || (report.disk_read_bytes == read_ && report.disk_written_bytes == written_)) {
    return {};
  }
  return fmt::format("step {}: {} bytes read from disks and {} written, planned {} and {}", report.step,
                     report.disk_read_bytes, report.disk_written_bytes, read_, written_);
}

std::string DiskTraffic::file_problem(std::int64_t bytes_on_disk) const {
  constexpr std::int64_t of_the_file_system = 2 << 16;  // its overhead for two files: lists of extents
  bool const as_planned =
      bytes_on_disk >= on_disk_ && bytes_on_disk <= on_disk_ + (on_disk_ > 0 ? of_the_file_system : 0);
  return as_planned ? "" : fmt::format("{} bytes on disks, planned {}", bytes_on_disk, on_disk_);
}

}  // namespace zeroth::testing::jobs
