// SPDX-License-Identifier: Apache-2.0
/// The version of Zeroth. CMake and pkg-config read it here.
#pragma once
#include <string_view>

/// From 1 on, a different major version is a different interface.
#define ZEROTH_VERSION_MAJOR 0
/// Grows with additions.
#define ZEROTH_VERSION_MINOR 1
/// Grows with fixes.
#define ZEROTH_VERSION_PATCH 0

namespace zeroth {

/// "0.1.0". While the major version is 0, a different minor version is a different interface; SONAME has both.
inline constexpr std::string_view version = "0.1.0";

}  // namespace zeroth
