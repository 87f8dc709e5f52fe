#include "parameter_list.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "model_builder.hpp"
#include "tensor_shape.hpp"

namespace zeroth::tools {
namespace {

using Matrices = std::map<std::string, Param<2>>;

void add_parameter(ModelBuilder& build, JsonObject const& parameter, Matrices& matrices) {
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
    matrices.emplace(name, lookup ? build.table(name, shape->rows, shape->columns, options)
                                  : build.matrix(name, shape->rows, shape->columns, options));
  }
}

void add_unit(ModelBuilder& build, JsonObject const& unit, Matrices& matrices) {
  unit.only({"name", "parameters", "ties", "attention_channels"});
  build.unit(unit.text("name"));
  auto const earlier = matrices;
  auto const ties = unit.texts("ties");
  if (ties.empty() || unit.has("parameters")) {
    for (auto const& parameter : unit.objects("parameters")) {
      add_parameter(build, parameter, matrices);
    }
  }
  for (auto tie = ties.begin(); tie != ties.end(); ++tie) {
    auto const found = earlier.find(*tie);
    if (found == earlier.end() || std::find(ties.begin(), tie, *tie) != tie) {
      unit.refuse("ties", "names of earlier units' parameters of two dimensions or more, each once");
    }
    build.tie(found->second);
  }
  if (unit.has("attention_channels")) {
    build.attention(unit.extent("attention_channels"));
  }
}

}  // namespace

SourcedModel model_of_list(std::filesystem::path const& file, Json const& json) {
  JsonObject const list{file, json};
  list.only({"units", "context"});
  ModelBuilder build{file.string()};
  Matrices matrices;
  for (auto const& unit : list.objects("units")) {
    add_unit(build, unit, matrices);
  }
  auto const context = list.has("context") ? std::optional{list.extent("context")} : std::nullopt;
  return build.finish(file.string(), "a list of parameters", context);
}

}  // namespace zeroth::tools
