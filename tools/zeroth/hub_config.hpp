// SPDX-License-Identifier: Apache-2.0
/// Reads Hugging Face's config.json.
#pragma once
#include <filesystem>

#include "json_file.hpp"
#include "model_source.hpp"

namespace zeroth::tools {

/// The model of an architecture with exactly known parameters. Throws ConfigError, which lists these architectures, for
/// others.
[[nodiscard]] SourcedModel model_of_hub_config(std::filesystem::path const& file, Object const& object,
                                               ModelRequest const& request = {});

}  // namespace zeroth::tools
