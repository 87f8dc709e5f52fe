// SPDX-License-Identifier: Apache-2.0
/// What a job has shown, by name, as bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace zeroth::testing::jobs {

class Record {
 public:
  void add(std::string name, std::span<float const> values);
  void add(std::string name, std::span<double const> values);
  void add_bytes(std::string name, std::span<std::byte const> bytes);
  /// What is wrong in itself, whatever the reference says.
  void complain(std::string problem) { problems_.push_back(std::move(problem)); }
  /// From a part of the job: it has not shown all of it.
  void leave_out() { has_all_ = false; }
  /// What ranks of another stage show.
  void leave_out(std::string name) { left_out_.insert(std::move(name)); }
  /// What has to be the same on all ranks of a stage of a pipeline, or of a job, and is another thing in its reference.
  void count(std::string name, int stage, std::span<std::int64_t const> numbers);
  /// As first_difference(), of what was counted on another rank of the same job.
  [[nodiscard]] std::string first_other_count(Record const& rank) const;
  /// The first of what is wrong in itself; empty if nothing is.
  [[nodiscard]] std::string first_problem() const { return problems_.empty() ? "" : problems_.front(); }
  /// The first thing in which this job is not as `reference` was; empty if there is none. What a job shows twice,
  /// having made a step again, is the same both times.
  [[nodiscard]] std::string first_difference(Record const& reference) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> shown_;
  struct Counted {
    int stage;
    std::vector<std::int64_t> numbers;
  };
  std::vector<std::pair<std::string, Counted>> counted_;  // each name once
  std::vector<std::string> problems_;
  std::set<std::string> left_out_;
  bool has_all_ = true;
};

}  // namespace zeroth::testing::jobs
