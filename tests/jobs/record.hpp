// SPDX-License-Identifier: Apache-2.0
/// The results of a job, by name, as bits.
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
  /// Records a problem that does not depend on the reference.
  void complain(std::string problem) { problems_.push_back(std::move(problem)); }
  /// Marks a record of a part of the job, which does not have all results.
  void leave_out() { has_all_ = false; }
  /// Marks a result that ranks of another stage record.
  void leave_out(std::string name) { left_out_.insert(std::move(name)); }
  /// Records numbers that must be equal on all ranks of a pipeline stage, or of a job, but not in the reference.
  void count(std::string name, int stage, std::span<std::int64_t const> numbers);
  /// Like first_difference(), for the numbers of count() on another rank of the same job.
  [[nodiscard]] std::string first_other_count(Record const& rank) const;
  /// The first problem of complain(); empty if there is none.
  [[nodiscard]] std::string first_problem() const { return problems_.empty() ? "" : problems_.front(); }
  /// The first difference from `reference`; empty if there is none. Results of repeated steps must be the same both
  /// times.
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
