// SPDX-License-Identifier: Apache-2.0
/// Sums over the spans of a rank.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "zeroth/device/timeline.hpp"

namespace zeroth::engine {

class SpanSums {
 public:
  struct Key {
    std::string stream, what, unit;
    auto operator<=>(Key const&) const = default;  // NOLINT(modernize-use-nullptr): it is none
  };
  struct Sum {
    double ms = 0;
    std::int64_t count = 0;
  };

  void add(std::vector<Span> const& spans);
  void clear() { sums_.clear(); }
  [[nodiscard]] std::map<Key, Sum> const& all() const noexcept { return sums_; }
  /// The sum over all streams.
  [[nodiscard]] Sum of(std::string_view what, std::string_view unit) const;

 private:
  std::map<Key, Sum> sums_;
};

/// A table of milliseconds per step by purpose and stream, the compute stream first, from the spans of `steps` steps.
[[nodiscard]] std::string breakdown(SpanSums const& sums, std::int64_t steps);

}  // namespace zeroth::engine
