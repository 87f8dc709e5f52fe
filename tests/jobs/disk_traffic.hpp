// SPDX-License-Identifier: Apache-2.0
/// Checks that a job's disks hold and move the planned bytes.
#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "jobs/drawn.hpp"
#include "zeroth/engine/plan.hpp"
#include "zeroth/engine/report.hpp"

namespace zeroth::testing::jobs {

/// The plan counts the bytes of a step that follows another one in declared order. Other calls read and write more.
class DiskTraffic {
 public:
  DiskTraffic(Plan const& plan, Choice const& choice);
  void step_made(int step);
  /// Call when something other than a step has used the disks, or replaces their contents.
  void disturb();
  /// Empty if there is no problem.
  [[nodiscard]] std::string step_problem(StepReport const& report) const;
  [[nodiscard]] std::string file_problem(std::int64_t bytes_on_disk) const;

 private:
  std::int64_t on_disk_, read_, written_;
  bool plain_;
  int first_ = 0, last_ = 0;
  std::set<std::int64_t> disturbed_;
};

}  // namespace zeroth::testing::jobs
