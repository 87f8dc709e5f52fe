// SPDX-License-Identifier: Apache-2.0
#include "model_builder.hpp"

#include <fmt/format.h>

#include <utility>

#include <zeroth/core/error.hpp>
#include <zeroth/model/description.hpp>
#include <zeroth/tool/config/document.hpp>
#include <zeroth/tool/core/utf8.hpp>

namespace zeroth::tools {

namespace {

Init const start = Constant{0};  // the model is never initialised

/// Tables and traces print it unchanged.
bool is_printable(std::string name) {
  std::erase(name, '\\');
  return escaped(name) == name;
}

}  // namespace

void ModelBuilder::check(std::string const& name, std::int64_t rows, std::int64_t columns) {
  bool const allowed = !name.empty() && name != "__metadata__" && is_printable(name);
  if (!allowed || !names_.insert(name).second) {
    throw ConfigError{fmt::format("{}: parameter name {} {}", source_, config::in_quotes(name),
                                  allowed ? "is given twice" : "is not allowed")};
  }
  auto const room = largest_parameter_count - count_;
  if (rows < 1 || columns < 1 || rows > room / columns) {
    throw ConfigError{
        fmt::format("{}: parameter {} is {} x {}; allowed: extents of at least 1, and {:g} elements "
                    "in the whole model",
                    source_, config::in_quotes(name), rows, columns, static_cast<double>(largest_parameter_count))};
  }
  count_ += rows * columns;
}

void ModelBuilder::expect_divided_heads(std::int64_t heads) const {
  if (heads % tensor_ranks() != 0) {
    throw ConfigError{fmt::format(
        "{}: has {} heads, which zeroth.mesh.tensor, {}, does not divide; allowed: divisors of the number of heads",
        source_, heads, tensor_ranks())};
  }
}

void ModelBuilder::unit(std::string const& name, std::int64_t input_channels, int sums) {
  if (std::ssize(units_) == largest_unit_count) {
    throw ConfigError{fmt::format("{}: more than {} units", source_, largest_unit_count)};
  }
  if (!is_printable(name)) {
    throw ConfigError{fmt::format("{}: unit name {} is not allowed", source_, config::in_quotes(name))};
  }
  auto const context = context_.value_or(0);
  if (context > 0 && input_channels > model::largest_count / context) {
    throw ConfigError{fmt::format(
        "{}: {} channels times {} tokens of a sequence are too much input for unit {}; allowed: up to {} elements",
        source_, input_channels, context, config::in_quotes(name), model::largest_count)};
  }
  if (context % rows_divided_by_ != 0) {
    throw ConfigError{
        fmt::format("{}: a sequence has {} tokens, which zeroth.mesh.tensor with zeroth.sequence_parallel, {}, does "
                    "not divide; allowed: multiples of it",
                    source_, context, rows_divided_by_)};
  }
  units_.push_back(model_.unit(name, {.input_per_sample = input_channels * context / rows_divided_by_,
                                      .tensor_sums_per_sample = sums * input_channels * context}));
  facts_.emplace_back();
}

Param<2> ModelBuilder::matrix(std::string const& name, std::int64_t rows, std::int64_t columns,
                              ParamOptions const& options) {
  auto const param = table(name, rows, columns, options);
  multiply_with(param.shape()[0] * param.shape()[1]);
  return param;
}

Param<2> ModelBuilder::table(std::string const& name, std::int64_t rows, std::int64_t columns,
                             ParamOptions const& options) {
  check(name, rows, columns);
  return model_.param(units_.back(), name, {rows, columns}, start, options);
}

void ModelBuilder::vector(std::string const& name, std::int64_t count, ParamOptions const& options) {
  check(name, count, 1);
  static_cast<void>(model_.param(units_.back(), name, {count}, start, options));
}

void ModelBuilder::tie(Param<2> const& param) {
  model_.tie(units_.back(), param);
  multiply_with(param.shape()[0] * param.shape()[1]);
}

void ModelBuilder::multiply_with(std::int64_t count) {
  facts_.back().matmul_count += count;
  last_matrix_count_ = count;
}

SourcedModel ModelBuilder::finish(std::string name, std::string about) {
  return {std::move(model_), std::move(facts_), context_, std::move(name), std::move(about)};
}

}  // namespace zeroth::tools
