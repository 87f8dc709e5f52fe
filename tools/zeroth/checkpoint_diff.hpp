// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint diff`: whether two checkpoints continue with the same bits, regardless of the number of ranks
/// that wrote them, and where they differ.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/core/dtype.hpp>

#include "paper.hpp"

namespace zeroth::tools {

/// A state of a parameter with elements that differ.
struct StateDifference {
  std::string state, param;
  Dtype dtype = Dtype::fp32, other_dtype = Dtype::fp32;  ///< If the dtypes differ, values are compared, otherwise bits.
  std::int64_t count = 0;                                ///< Total number of elements.
  std::int64_t differing = 0;
  std::int64_t first = 0;  ///< Index of the first that differs.
  double largest = 0;      ///< |a - b|; infinite if only one of them is a number.
};

/// A value of the training progress, or of the model, that differs.
struct ValueDifference {
  std::string what, value, other;
};

struct CheckpointDifference {
  std::filesystem::path path, other;
  std::vector<ValueDifference> values;  ///< Step, samples, data order and so on, and what only one of them has.
  std::int64_t values_left_out = 0;     ///< Number of further ones that were left out.
  std::vector<StateDifference> states;
  std::int64_t params = 0, elements = 0;  ///< Compared states.
  std::vector<std::string> settings;      ///< Differences of the stage files, which do not count.

  [[nodiscard]] bool same() const noexcept { return values.empty() && states.empty(); }
};

/// Whether the state that a program stores in its checkpoints is compared.
enum class ProgramState { counts, does_not_count };

/// Compares the folders of two checkpoints. Uses 24 MiB. Throws SystemError for files that are unreadable or damaged.
[[nodiscard]] CheckpointDifference compare(std::filesystem::path const& checkpoint, std::filesystem::path const& other,
                                           ProgramState program_state = ProgramState::counts);
[[nodiscard]] std::string as_text(CheckpointDifference const& difference, Paper const& paper = {});
[[nodiscard]] std::string as_json(CheckpointDifference const& difference);

}  // namespace zeroth::tools
