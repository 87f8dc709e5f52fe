// SPDX-License-Identifier: Apache-2.0
/// The inputs, besides the model, that the program of a drawn job gives its engine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "jobs/drawn.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing::jobs {

class Counter final : public Monitor {
 public:
  explicit Counter(std::int64_t& events) : events_{events} {}
  void write(std::span<MonitorEvent const> events) override { events_ += static_cast<std::int64_t>(events.size()); }

 private:
  std::int64_t& events_;
};

/// A stage file, with the program's own rule if that was drawn.
[[nodiscard]] Config config_of(Choice const& choice, nlohmann::json const& file);
[[nodiscard]] SampleOrder data_of(Drawn const& drawn);
/// Rank 0's program state in checkpoints, which restore() returns on all ranks.
[[nodiscard]] std::vector<std::byte> program_state_of(Drawn const& drawn, int step);
/// SaveOptions::rank_state of a rank; ranks differ in size and bytes, and some have none.
[[nodiscard]] std::vector<std::byte> rank_state_of(Drawn const& drawn, int step, checkpoint::SavedRank const& rank);

}  // namespace zeroth::testing::jobs
