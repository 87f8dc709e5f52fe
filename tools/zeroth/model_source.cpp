// SPDX-License-Identifier: Apache-2.0
#include "model_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <zeroth/core/error.hpp>

#include "hub_config.hpp"
#include "json_file.hpp"
#include "model_builder.hpp"
#include "parameter_list.hpp"
#include "presets.hpp"
#include "standard_input.hpp"
#include "tensor_header.hpp"

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;

SourcedModel of_equal_units(std::int64_t parameters, ModelRequest const& request) {
  auto const units = request.units;
  if (parameters < 1 || parameters > largest_parameter_count) {
    throw ConfigError{fmt::format("--parameters {}: allowed: a whole number from 1 to {:g}", parameters,
                                  static_cast<double>(largest_parameter_count))};
  }
  if (units < 1 || units > largest_unit_count || units > parameters) {
    throw ConfigError{fmt::format("--units {} for {} parameters: allowed: from 1 to {}", units, parameters,
                                  std::min(parameters, largest_unit_count))};
  }
  ModelBuilder build{"--parameters"};
  build.context(request.context);
  for (std::int64_t unit = 0; unit < units; ++unit) {
    auto const name = fmt::format("unit {}", unit);
    build.unit(name, request.channels.value_or(0));
    build.matrix(name + ".weight", 1, parameters / units + (unit < parameters % units ? 1 : 0));
  }
  return build.finish("equal units", "from --parameters");
}

/// For sources that do not state which parameter is the head's, or which matrices form pairs.
void refuse_questions_of_layers(ModelRequest const& request) {
  auto const refused = [&](std::string const& what) {
    return ConfigError{fmt::format("{} with {}: allowed with a preset, and with a Hugging Face config.json", what,
                                   request.parameters ? "--parameters" : request.model)};
  };
  if (request.untied_head) {
    throw refused("--untied-head");
  }
  if (request.tensor_ranks > 1) {
    throw refused(fmt::format("zeroth.mesh.tensor {}", request.tensor_ranks));
  }
}

SourcedModel from_json(fs::path const& file, Object const& object, ModelRequest const& request) {
  auto const has = [&](char const* key) { return config::find(object, key) != nullptr; };
  if (has("model_type") && !has("units")) {
    return model_of_hub_config(file, object, request);
  }
  refuse_questions_of_layers(request);
  if (has("units")) {
    return model_of_list(file, object, request);
  }
  if (has("weight_map")) {
    return model_of_tensor_index(file, object);
  }
  if (looks_like_tensor_header(object)) {
    return model_of_tensor_header(file, object);
  }
  throw ConfigError{
      fmt::format("{}: is not a description of a model; allowed: a Hugging Face config.json (which has model_type), a "
                  "safetensors file, header or index, or a list of parameters (which has units)",
                  file.string())};
}

SourcedModel from_file(fs::path const& file, ModelRequest const& request) {
  if (!is_tensor_file(file)) {
    return from_json(file, read_json(file), request);
  }
  refuse_questions_of_layers(request);
  return model_of_tensor_file(file);
}

SourcedModel from_folder(fs::path const& folder, ModelRequest const& request) {
  for (char const* const name : {"config.json", "model.safetensors.index.json", "model.safetensors"}) {
    if (fs::exists(folder / name)) {
      return from_file(folder / name, request);
    }
  }
  throw ConfigError{fmt::format("{}: this folder has no config.json, model.safetensors.index.json or model.safetensors",
                                folder.string())};
}

SourcedModel from_any(ModelRequest const& request) {
  if (request.parameters) {
    refuse_questions_of_layers(request);
    return of_equal_units(*request.parameters, request);
  }
  if (request.model == standard_input) {
    fs::path const name{standard_input_name};
    return from_json(name, parse_json(name, read_standard_input("--model")), request);
  }
  if (auto const* const preset = find_preset(request.model)) {
    return model_of_preset(*preset, request);
  }
  fs::path const path{request.model};
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return from_folder(path, request);
  }
  if (fs::exists(path, ignored)) {
    return from_file(path, request);
  }
  throw ConfigError{fmt::format("--model {}: there is no such file or folder, and no such preset; {}", request.model,
                                presets_near(request.model))};
}

}  // namespace

SourcedModel read_model(ModelRequest const& request) {
  auto model = from_any(request);
  if (request.context) {
    model.context = request.context;
  }
  return model;
}

}  // namespace zeroth::tools
