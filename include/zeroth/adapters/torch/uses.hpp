// SPDX-License-Identifier: Apache-2.0
/// The units that a micro-step's forward has used, in order, and which of these uses backward has visited.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace zeroth::torch_adapter::detail {

/// Autograd visits units in the reverse order of forward, but only where gradients flow. Engines require a backward
/// visit for each use: this finds those that autograd has passed by.
class Uses {
 public:
  void clear() noexcept { all_.clear(); }
  /// Forward uses a unit.
  void add(std::size_t unit) { all_.push_back({unit}); }
  /// Backward does not visit the unit, because the program skips it.
  void skip(std::size_t unit) noexcept {
    for (auto& use : all_) {
      use.visited |= use.unit == unit;
    }
  }
  /// Backward visits the unit's last use that it has not visited. Returns the place of that use, or the number of all
  /// uses if there is none.
  std::size_t visit(std::size_t unit) noexcept {
    auto const at =
        std::find_if(all_.rbegin(), all_.rend(), [&](Use const& use) { return use.unit == unit && !use.visited; });
    if (at == all_.rend()) {
      return all_.size();
    }
    at->visited = true;
    return static_cast<std::size_t>(all_.rend() - at) - 1;
  }
  /// Marks unvisited uses from `place` on as visited, and appends their units to `units`, where `is_over(unit)`.
  template <class F>
  void visit_from(std::size_t place, F const& is_over, std::vector<std::size_t>& units) {
    for (; place < all_.size(); ++place) {
      if (auto& use = all_[place]; !use.visited && is_over(use.unit)) {
        use.visited = true;
        units.push_back(use.unit);
      }
    }
  }

 private:
  struct Use {
    std::size_t unit;
    bool visited = false;
  };
  std::vector<Use> all_;
};

}  // namespace zeroth::torch_adapter::detail
