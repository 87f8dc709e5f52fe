// SPDX-License-Identifier: Apache-2.0
#include "jobs/program.hpp"

#include "support/rules.hpp"

namespace zeroth::testing::jobs {

Config config_of(Choice const& choice, nlohmann::json const& file) {
  auto config = Config::from_json(file.dump());
  return choice.is("optimizer", "a rule of its own") ? config.with(own_momentum()) : config;
}

SampleOrder data_of(Drawn const& drawn) {
  return SampleOrder{1 + static_cast<std::int64_t>(drawn.seed % 1000), {.seed = drawn.seed}};
}

std::vector<std::byte> program_state_of(Drawn const& drawn, int step) {
  auto const& value = drawn.choice["program state"];
  std::size_t const size = value == "none"     ? 0
                           : value == "a byte" ? 1
                           : value == "pages"  ? 4096 + drawn.seed % 10'000
                                               : static_cast<std::size_t>(SaveOptions::largest_program_state);
  std::vector<std::byte> state(size);
  for (std::size_t i = 0; i < size; ++i) {
    state[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(step));
  }
  return state;
}

std::vector<std::byte> rank_state_of(Drawn const& drawn, int step, checkpoint::SavedRank const& rank) {
  auto const number = static_cast<std::size_t>((rank.stage * 64 + rank.tensor) * 64 + rank.data);
  std::vector<std::byte> state((drawn.seed + 1777 * number) % 5000 * (number % 3));
  for (std::size_t i = 0; i < state.size(); ++i) {
    state[i] = static_cast<std::byte>(i * 11 + number + static_cast<std::size_t>(step));
  }
  return state;
}

}  // namespace zeroth::testing::jobs
