// SPDX-License-Identifier: Apache-2.0
/// Ratios of two alternating measurements in one run, so that disturbances of the machine affect both.
#pragma once
#include <algorithm>
#include <chrono>
#include <vector>

namespace zeroth::bench {

template <class F>
[[nodiscard]] double seconds(F const& function) {
  auto const begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

[[nodiscard]] inline double quantile(std::vector<double> values, double at) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(at * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Paired {
  double subject_seconds = 0, yardstick_seconds = 0;  ///< Medians.
  double ratio = 0, ratio_low = 0, ratio_high = 0;    ///< Yardstick over subject by round: median and quartiles.
};

/// Runs both alternately, `rounds` times each after a warm-up round. A ratio of 1 means as fast as the yardstick.
template <class Subject, class Yardstick>
[[nodiscard]] Paired compare(int rounds, Subject const& subject, Yardstick const& yardstick) {
  std::vector<double> subjects, yardsticks, ratios;
  for (int round = -1; round < rounds; ++round) {
    // The order alternates, because the second one finds the caches as the first one left them.
    double ours = 0, bound = 0;
    if (round % 2 == 0) {
      ours = seconds(subject);
      bound = seconds(yardstick);
    } else {
      bound = seconds(yardstick);
      ours = seconds(subject);
    }
    if (round >= 0) {
      subjects.push_back(ours);
      yardsticks.push_back(bound);
      ratios.push_back(bound / ours);
    }
  }
  return {quantile(subjects, 0.5), quantile(yardsticks, 0.5), quantile(ratios, 0.5), quantile(ratios, 0.25),
          quantile(ratios, 0.75)};
}

}  // namespace zeroth::bench
