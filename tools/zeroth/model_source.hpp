// SPDX-License-Identifier: Apache-2.0
/// Where a model comes from that is planned or simulated: a preset, files of Hugging Face's, a list, or just a number.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/model/model.hpp>

namespace zeroth::tools {

/// What a unit computes. Counts only what is multiplied; lookups, norms and activations cost little beside it.
struct UnitFacts {
  std::int64_t matmul_count = 0;        ///< Elements of matrices that a token is multiplied with, tied ones included.
  std::int64_t first_matmul_count = 0;  ///< Of them, those that begin a pair of layers, which tensor ranks divide.
  std::int64_t last_matmul_count = 0;   ///< Of them, those of the last product, if it is known which that is.
  std::int64_t attention_channels = 0;  ///< Heads x channels of a head. 0: no attention, or none that is known of.

  /// 2 for each element of a matrix, and what attention has.
  [[nodiscard]] double forward_flops_per_token(std::int64_t context) const noexcept {
    return 2.0 * static_cast<double>(matmul_count) + attention_flops_per_token(context);
  }
  /// Backward needs what the last product multiplied, and not its result.
  [[nodiscard]] double recompute_flops_per_token(std::int64_t context) const noexcept {
    return forward_flops_per_token(context) - 2.0 * static_cast<double>(last_matmul_count);
  }
  /// 2 x 2 x context x channels for its two products, not masked.
  [[nodiscard]] double attention_flops_per_token(std::int64_t context) const noexcept {
    return 4.0 * static_cast<double>(context) * static_cast<double>(attention_channels);
  }
};

/// A model and what its source says beside the parameters.
struct SourcedModel {
  Model model;
  std::vector<UnitFacts> facts;         ///< By unit of the model.
  std::optional<std::int64_t> context;  ///< Tokens of a sequence, where the source says so.
  std::string name;                     ///< "7.5B", or the file.
  std::string about;                    ///< A phrase on what was taken from where.
};

/// Exactly one of `model` and `parameters` is given.
struct ModelRequest {
  std::string model = {};                       ///< A preset, or a path.
  std::optional<std::int64_t> parameters = {};  ///< From 1 to largest_parameter_count.
  std::int64_t units = 32;                      ///< Equal ones, of `parameters`.
  /// Elements of a token that go from a unit to the next, of `parameters`.
  std::optional<std::int64_t> channels = {};
  std::optional<std::int64_t> context = {};  ///< Tokens of a sequence, in place of what the source says.
  bool untied_head = false;                  ///< A head has a matrix of its own, whatever the source says.
  int tensor_ranks = 1;                      ///< The model is what the first of them has.
  bool sequence = false;                     ///< They divide the rows between layers, too.
};

inline constexpr std::int64_t largest_parameter_count = 1'000'000'000'000'000;
inline constexpr std::int64_t largest_unit_count = 10'000;
inline constexpr std::int64_t longest_context = 1 << 24;

/// Costs time and memory by parameter tensor, never by element. Throws ConfigError that names the source, what is wrong
/// and what is allowed.
[[nodiscard]] SourcedModel read_model(ModelRequest const& request);

}  // namespace zeroth::tools
