// SPDX-License-Identifier: Apache-2.0
/// Hugging Face's config.json.
#pragma once
#include <filesystem>

#include "json_file.hpp"
#include "model_source.hpp"

namespace zeroth::tools {

/// Of the architectures whose parameters are known exactly; others are refused by a ConfigError that lists them.
[[nodiscard]] SourcedModel model_of_hub_config(std::filesystem::path const& file, Object const& object,
                                               ModelRequest const& request = {});

}  // namespace zeroth::tools
