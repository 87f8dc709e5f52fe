// SPDX-License-Identifier: Apache-2.0
/// The run as JSON lines.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <zeroth/device/memory.hpp>
#include <zeroth/engine/report.hpp>

namespace gpt {

/// Planned and peak memory of one rank.
struct RankMemory {
  zeroth::MemoryBytes planned, measured;
};

/// One line each, floats with 9 significant digits (enough to restore every fp32 value), null for values that are not
/// finite.
[[nodiscard]] std::string step_record(zeroth::StepReport const& step, std::int64_t tokens);
[[nodiscard]] std::string memory_record(int rank, RankMemory const& memory);

/// Tokens per second of a step over `tokens`, on all ranks together.
[[nodiscard]] double tokens_per_second(zeroth::StepReport const& step, std::int64_t tokens);

}  // namespace gpt
