// SPDX-License-Identifier: Apache-2.0
#include "jobs/pairs.hpp"

#include <fmt/format.h>

namespace zeroth::testing::jobs {

Pairs::Pairs() {
  for (auto const& option : options()) {
    first_.push_back(places_);
    places_ += option.values.size();
  }
  states_.assign(places_ * places_, State::impossible);
  for (std::size_t a = 0; a < options().size(); ++a) {
    for (std::size_t b = a + 1; b < options().size(); ++b) {
      for (std::size_t va = 0; va < options()[a].values.size(); ++va) {
        for (std::size_t vb = 0; vb < options()[b].values.size(); ++vb) {
          if (go_together(a, va, b, vb)) {
            states_[at(first_[a] + va, first_[b] + vb)] = State::missing;
            ++possible_;
          }
        }
      }
    }
  }
}

void Pairs::add(Choice const& choice) {
  auto const& values = choice.values();
  for (std::size_t a = 0; a < values.size(); ++a) {
    for (std::size_t b = a + 1; b < values.size(); ++b) {
      auto& state = states_[at(first_[a] + values[a], first_[b] + values[b])];
      if (state == State::missing) {
        state = State::seen;
        ++seen_;
      }
    }
  }
}

std::size_t Pairs::new_in(Choice const& choice) const {
  auto const& values = choice.values();
  std::size_t count = 0;
  for (std::size_t a = 0; a < values.size(); ++a) {
    for (std::size_t b = a + 1; b < values.size(); ++b) {
      count += states_[at(first_[a] + values[a], first_[b] + values[b])] == State::missing ? std::size_t{1} : 0;
    }
  }
  return count;
}

std::string Pairs::missing() const {
  std::string all;
  for (std::size_t a = 0; a < options().size(); ++a) {
    for (std::size_t b = a + 1; b < options().size(); ++b) {
      for (std::size_t va = 0; va < options()[a].values.size(); ++va) {
        for (std::size_t vb = 0; vb < options()[b].values.size(); ++vb) {
          if (states_[at(first_[a] + va, first_[b] + vb)] == State::missing) {
            all += fmt::format("  {} {} x {} {}\n", options()[a].name, options()[a].values[va].name, options()[b].name,
                               options()[b].values[vb].name);
          }
        }
      }
    }
  }
  return all;
}

}  // namespace zeroth::testing::jobs
