// SPDX-License-Identifier: Apache-2.0
#include "jobs/kept_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "jobs/random.hpp"

namespace zeroth::testing::jobs {

std::unique_ptr<KeptInputs> KeptInputs::of(AnyEngine& engine, BuiltModel const& built, Config const& config) {
  auto const asked = config.activation_checkpointing();
  return asked.offload == ActivationOffload::nvme ? std::make_unique<KeptInputs>(engine, built, config) : nullptr;
}

KeptInputs::KeptInputs(AnyEngine& engine, BuiltModel const& built, Config const& config)
    : built_{built},
      policy_{config, built.model},
      store_{engine,
             {.bytes = static_cast<std::int64_t>(built.units.size()) * most_bytes,
              .slots = 1 + static_cast<int>(built.units.size() % 3),
              .input_bytes = most_bytes}},
      kept_(built.units.size()),
      memory_(most_bytes),
      expected_(most_bytes) {}

std::int64_t KeptInputs::fill(std::size_t unit, std::int64_t sample, std::vector<std::byte>& bytes) const {
  Random random{static_cast<std::uint64_t>(sample) * 64 + unit, "input"};
  auto const count = 1 + static_cast<std::int64_t>(random.below(most_bytes));
  for (std::int64_t i = 0; i < count; ++i) {
    bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(random.next());
  }
  return count;
}

void KeptInputs::put(std::size_t unit, std::int64_t sample) {
  auto const handle = built_.units[unit].unit;
  if (!policy_.offloads(handle)) {
    return;
  }
  kept_[unit] = {};
  auto const count = fill(unit, sample, memory_);
  kept_[unit] = store_.put(memory_.data(), count, handle);
  std::ranges::fill(memory_, std::byte{0xA5});
}

void KeptInputs::take(std::size_t unit, std::int64_t sample) {
  if (!kept_[unit]) {
    return;
  }
  if (sample % 2 == 0) {
    kept_[unit].fetch();
  }
  kept_[unit].take(memory_.data());
  auto const count = fill(unit, sample, expected_);
  if (!std::equal(expected_.begin(), expected_.begin() + count, memory_.begin())) {
    throw std::runtime_error{
        fmt::format("the store has other bytes for unit {} and sample {} than were put there", unit, sample)};
  }
}

}  // namespace zeroth::testing::jobs
