// SPDX-License-Identifier: Apache-2.0
/// A model as a list of units and parameters, in JSON:
///
///   {"context": 2048,
///    "units": [{"name": "embedding", "parameters": [{"name": "wte", "shape": [50257, 768], "lookup": true}]},
///              {"name": "block 0", "attention_channels": 768,
///               "parameters": [{"name": "w", "shape": [768, 768]}, {"name": "frozen", "shape": [768],
///                               "trainable": false}]},
///              {"name": "head", "ties": ["wte"], "parameters": [...]}]}
///
/// Only names, parameters and shapes are required. A token is multiplied with every parameter of two or more dimensions
/// that is not a `lookup`, and with those that a unit ties.
#pragma once
#include <filesystem>

#include "json_file.hpp"
#include "model_source.hpp"

namespace zeroth::tools {

[[nodiscard]] SourcedModel model_of_list(std::filesystem::path const& file, Object const& object,
                                         ModelRequest const& request = {});

}  // namespace zeroth::tools
