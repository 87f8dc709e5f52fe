// SPDX-License-Identifier: Apache-2.0
/// Sources of a model to plan or simulate: a preset, files in Hugging Face's formats, a list, or a parameter count.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/model/model.hpp>

namespace zeroth::tools {

/// The work of a unit. Counts only matrix products; lookups, norms and activations cost little in comparison.
struct UnitFacts {
  std::int64_t matmul_count = 0;        ///< Elements of matrices that a token is multiplied with, tied ones included.
  std::int64_t first_matmul_count = 0;  ///< The part of them in matrices that begin a pair, which tensor ranks divide.
  std::int64_t last_matmul_count = 0;   ///< Elements of the last product's matrix, if known.
  std::int64_t attention_channels = 0;  ///< Heads x channels of a head; 0: no attention, or unknown.

  /// 2 per element of a matrix, plus attention.
  [[nodiscard]] double forward_flops_per_token(std::int64_t context) const noexcept {
    return 2.0 * static_cast<double>(matmul_count) + attention_flops_per_token(context);
  }
  /// Backward needs the inputs of the last product, not its result.
  [[nodiscard]] double recompute_flops_per_token(std::int64_t context) const noexcept {
    return forward_flops_per_token(context) - 2.0 * static_cast<double>(last_matmul_count);
  }
  /// 2 x 2 x context x channels for its two products, without a mask.
  [[nodiscard]] double attention_flops_per_token(std::int64_t context) const noexcept {
    return 4.0 * static_cast<double>(context) * static_cast<double>(attention_channels);
  }
};

/// A model, and facts from its source other than the parameters.
struct SourcedModel {
  Model model;
  std::vector<UnitFacts> facts;         ///< By unit of the model.
  std::optional<std::int64_t> context;  ///< Sequence length in tokens, if the source states it.
  std::string name;                     ///< "7.5B", or the file.
  std::string about;                    ///< A phrase on where it came from.
};

/// Exactly one of `model` and `parameters` is given.
struct ModelRequest {
  std::string model = {};                       ///< A preset, or a path.
  std::optional<std::int64_t> parameters = {};  ///< From 1 to largest_parameter_count.
  std::int64_t units = 32;                      ///< Number of equal units, with `parameters`.
  /// With `parameters`: elements per token that pass from a unit to the next.
  std::optional<std::int64_t> channels = {};
  std::optional<std::int64_t> context = {};  ///< Sequence length in tokens, overrides the source.
  bool untied_head = false;                  ///< Gives the head its own matrix, whatever the source says.
  int tensor_ranks = 1;                      ///< The model becomes the first tensor rank's part.
  bool sequence = false;                     ///< Tensor ranks also divide the rows between layers.
};

inline constexpr std::int64_t largest_parameter_count = 1'000'000'000'000'000;
inline constexpr std::int64_t largest_unit_count = 10'000;
inline constexpr std::int64_t longest_context = 1 << 24;

/// Costs time and memory per parameter tensor, never per element. Throws ConfigError, which names the source, what is
/// wrong and what is allowed.
[[nodiscard]] SourcedModel read_model(ModelRequest const& request);

}  // namespace zeroth::tools
