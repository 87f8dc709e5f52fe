// SPDX-License-Identifier: Apache-2.0
/// Machines that are known by name: the files of configs/machines that the build puts into the library.
#pragma once
#include <span>
#include <string_view>

namespace zeroth::simulate {

struct MachinePreset {
  std::string_view name;  ///< The file's, without its suffix.
  std::string_view text;  ///< What the file says.
};
[[nodiscard]] std::span<MachinePreset const> preset_texts() noexcept;

}  // namespace zeroth::simulate
