// SPDX-License-Identifier: Apache-2.0
/// Machines known by name: files of configs/machines that the build embeds in the library.
#pragma once
#include <span>
#include <string_view>

namespace zeroth::simulate {

struct MachinePreset {
  std::string_view name;  ///< The file's, without its suffix.
  std::string_view text;  ///< The file's content.
};
[[nodiscard]] std::span<MachinePreset const> preset_texts() noexcept;

}  // namespace zeroth::simulate
