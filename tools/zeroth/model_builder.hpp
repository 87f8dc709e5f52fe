// SPDX-License-Identifier: Apache-2.0
/// Builds a model, and counts the work of its units.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <zeroth/model/model.hpp>

#include "model_source.hpp"

namespace zeroth::tools {

/// Options of a parameter that tensor ranks divide.
[[nodiscard]] inline ParamOptions cut_along(int dim, std::vector<std::int64_t> sections = {}) {
  return {.cut = Cut{.dim = dim, .sections = std::move(sections)}};
}

/// Adds everything to the unit opened last. Throws ConfigError, naming `source`, for anything that no model can have.
class ModelBuilder {
 public:
  /// Builds the part of the first of `tensor_ranks`. With `sequence` tensor ranks also divide the rows between layers.
  explicit ModelBuilder(std::string source, int tensor_ranks = 1, bool sequence = false)
      : source_{std::move(source)}, model_{0, {0, tensor_ranks}}, rows_divided_by_{sequence ? tensor_ranks : 1} {}

  [[nodiscard]] int tensor_ranks() const { return model_.tensor_part().of; }
  /// Throws ConfigError unless tensor ranks can have whole heads.
  void expect_divided_heads(std::int64_t heads) const;

  /// Sets the tokens of a sequence, for all later units.
  void context(std::optional<std::int64_t> context) { context_ = context; }
  /// `input_channels`: elements per token from the previous unit; 0 if a pipeline stage cannot begin here. `sums`: the
  /// number of times that tensor ranks add up so many elements in forward.
  void unit(std::string const& name, std::int64_t input_channels = 0, int sums = 0);
  /// A matrix that tokens are multiplied with.
  Param<2> matrix(std::string const& name, std::int64_t rows, std::int64_t columns, ParamOptions const& options = {});
  /// A matrix of a hidden layer, which Muon updates.
  Param<2> hidden_matrix(std::string const& name, std::int64_t rows, std::int64_t columns, ParamOptions options) {
    options.matrix = true;
    return matrix(name, rows, columns, options);
  }
  /// A table: each token selects a row.
  Param<2> table(std::string const& name, std::int64_t rows, std::int64_t columns, ParamOptions const& options = {});
  void vector(std::string const& name, std::int64_t count, ParamOptions const& options = {});
  /// The unit multiplies with an earlier unit's parameter, too.
  void tie(Param<2> const& param);
  /// Marks the last matrix as the first of a pair of layers: tensor ranks add up the gradient of its input.
  void first_product() { facts_.back().first_matmul_count += last_matrix_count_; }
  /// Marks the last matrix as that of the unit's last product.
  void last_product() { facts_.back().last_matmul_count = last_matrix_count_; }
  /// Heads are divided, too.
  void attention(std::int64_t channels) { facts_.back().attention_channels += channels / tensor_ranks(); }

  [[nodiscard]] bool has(std::string const& name) const { return names_.contains(name); }
  [[nodiscard]] SourcedModel finish(std::string name, std::string about);

 private:
  void check(std::string const& name, std::int64_t rows, std::int64_t columns);
  void multiply_with(std::int64_t count);

  std::string source_;
  Model model_;
  int rows_divided_by_;
  std::vector<Unit> units_;
  std::vector<UnitFacts> facts_;
  std::set<std::string> names_;
  std::int64_t count_ = 0, last_matrix_count_ = 0;
  std::optional<std::int64_t> context_;
};

}  // namespace zeroth::tools
