// SPDX-License-Identifier: Apache-2.0
#include "parameter_list.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "model_builder.hpp"
#include "tensor_shape.hpp"

namespace zeroth::tools {
namespace {

/// Each with the number of its unit.
using Matrices = std::map<std::string, std::pair<Param<2>, std::size_t>>;

void add_parameter(ModelBuilder& build, JsonObject const& parameter, std::size_t unit, Matrices& matrices) {
  parameter.only({"name", "shape", "trainable", "lookup"});
  auto const name = parameter.text("name");
  if (build.has(name)) {
    parameter.refuse("name", "names that are not taken");
  }
  auto const shape = folded(parameter.shape("shape"));
  if (!shape) {
    parameter.refuse("shape", too_large);
  }
  ParamOptions const options{.trainable = parameter.flag("trainable", true)};
  bool const lookup = parameter.flag("lookup", false);
  if (shape->dimensions < 2) {
    build.vector(name, shape->rows, options);
  } else {
    auto const param = lookup ? build.table(name, shape->rows, shape->columns, options)
                              : build.matrix(name, shape->rows, shape->columns, options);
    matrices.try_emplace(name, param, unit);
  }
}

void add_unit(ModelBuilder& build, JsonObject const& unit, std::size_t index, Matrices& matrices) {
  unit.only({"name", "parameters", "ties", "attention_channels", "input_channels"});
  build.unit(unit.text("name"), unit.has("input_channels") ? unit.extent("input_channels") : 0);
  auto const ties = unit.texts("ties");
  if (ties.empty() || unit.has("parameters")) {
    for (auto const& parameter : unit.objects("parameters")) {
      add_parameter(build, parameter, index, matrices);
    }
  }
  std::set<std::string_view> tied;
  for (auto const& tie : ties) {
    auto const found = matrices.find(tie);
    if (found == matrices.end() || found->second.second == index || !tied.insert(tie).second) {
      unit.refuse("ties", "names of earlier units' parameters of two dimensions or more, each once");
    }
    build.tie(found->second.first);
  }
  if (unit.has("attention_channels")) {
    build.attention(unit.extent("attention_channels"));
  }
}

}  // namespace

SourcedModel model_of_list(std::filesystem::path const& file, Object const& object, ModelRequest const& request) {
  JsonObject const list{file, object};
  list.only({"units", "context"});
  ModelBuilder build{file.string()};
  auto const context = list.has("context") ? std::optional{list.extent("context")} : std::nullopt;
  build.context(request.context ? request.context : context);
  Matrices matrices;
  std::size_t index = 0;
  for (auto const& unit : list.objects("units")) {
    add_unit(build, unit, index++, matrices);
  }
  return build.finish(file.string(), "a list of parameters");
}

}  // namespace zeroth::tools
