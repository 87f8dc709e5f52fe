// SPDX-License-Identifier: Apache-2.0
/// The pairs of values of two options that occurred in one job.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "jobs/options.hpp"

namespace zeroth::testing::jobs {

/// Pairs that no rule forbids count.
class Pairs {
 public:
  Pairs();
  void add(Choice const& choice);
  [[nodiscard]] std::size_t new_in(Choice const& choice) const;
  [[nodiscard]] std::size_t possible() const noexcept { return possible_; }
  [[nodiscard]] std::size_t seen() const noexcept { return seen_; }
  /// A line for each: "option value x option value".
  [[nodiscard]] std::string missing() const;

 private:
  enum class State : char { impossible, missing, seen };
  [[nodiscard]] std::size_t at(std::size_t place, std::size_t other) const { return place * places_ + other; }
  std::vector<std::size_t> first_;  // place of an option's first value
  std::size_t places_ = 0;
  std::size_t possible_ = 0, seen_ = 0;
  std::vector<State> states_;
};

}  // namespace zeroth::testing::jobs
