// SPDX-License-Identifier: Apache-2.0
/// GPTs of the papers, by their size.
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
/// In any case of its letters; null if there is none.
[[nodiscard]] Preset const* find_preset(std::string_view name) noexcept;
/// "did you mean 7.5B? presets: ...", for a name that is none.
[[nodiscard]] std::string presets_near(std::string_view name);
[[nodiscard]] SourcedModel model_of_preset(Preset const& preset, ModelRequest const& request = {});

}  // namespace zeroth::tools
