// SPDX-License-Identifier: Apache-2.0
/// Which Zeroth this is. CMake and pkg-config read it here.
#pragma once
#include <string_view>

/// From 1 on: another one is another interface.
#define ZEROTH_VERSION_MAJOR 0
/// Grows with what is new.
#define ZEROTH_VERSION_MINOR 1
/// Grows with what was mended.
#define ZEROTH_VERSION_PATCH 0

namespace zeroth {

/// "0.1.0". While the major version is 0, another minor one is another interface: SONAME has both.
inline constexpr std::string_view version = "0.1.0";

}  // namespace zeroth
