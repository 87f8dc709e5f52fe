// SPDX-License-Identifier: Apache-2.0
/// GPTs of published papers, by size.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model_source.hpp"

namespace zeroth::tools {

struct Preset {
  std::string_view name;
  std::int64_t layers, heads, channels, context, vocabulary;
  std::string_view source;
};

[[nodiscard]] std::span<Preset const> presets() noexcept;
/// Ignores case; null if unknown.
[[nodiscard]] Preset const* find_preset(std::string_view name) noexcept;
/// "did you mean 7.5B? presets: ...", for an unknown name.
[[nodiscard]] std::string presets_near(std::string_view name);
[[nodiscard]] SourcedModel model_of_preset(Preset const& preset, ModelRequest const& request = {});

}  // namespace zeroth::tools
