// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint diff`: whether two checkpoints go on with the same bits, whatever the number of ranks that wrote
/// them, and where they do not.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/core/dtype.hpp>

#include "paper.hpp"

namespace zeroth::tools {

/// A state of a parameter that has not the same elements.
struct StateDifference {
  std::string state, param;
  Dtype dtype = Dtype::fp32, other_dtype = Dtype::fp32;  ///< Where they differ, values are compared, and not bits.
  std::int64_t count = 0;                                ///< Elements.
  std::int64_t differing = 0;
  std::int64_t first = 0;  ///< The first that differs.
  double largest = 0;      ///< |a - b|; infinite if only one of them is a number.
};

/// One value of how far training has come, or of the model.
struct ValueDifference {
  std::string what, value, other;
};

struct CheckpointDifference {
  std::filesystem::path path, other;
  std::vector<ValueDifference> values;  ///< Step, samples, data order, ..., and what only one of them has.
  std::int64_t values_left_out = 0;     ///< More of them.
  std::vector<StateDifference> states;
  std::int64_t params = 0, elements = 0;  ///< Of states, that were compared.
  std::vector<std::string> settings;      ///< In which the stage files differ. They do not count.

  [[nodiscard]] bool same() const noexcept { return values.empty() && states.empty(); }
};

/// Whether what programs keep in their checkpoints counts.
enum class ProgramState { counts, does_not_count };

/// Of the folders of two checkpoints. Takes 24 MiB. Throws SystemError for what cannot be read or is damaged.
[[nodiscard]] CheckpointDifference compare(std::filesystem::path const& checkpoint, std::filesystem::path const& other,
                                           ProgramState program_state = ProgramState::counts);
[[nodiscard]] std::string as_text(CheckpointDifference const& difference, Paper const& paper = {});
[[nodiscard]] std::string as_json(CheckpointDifference const& difference);

}  // namespace zeroth::tools
