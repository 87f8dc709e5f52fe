// SPDX-License-Identifier: Apache-2.0
/// The library's log, for adapters, which are header-only.
#pragma once
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth::detail {

/// Logs a warning with this rank's prefix.
ZEROTH_EXPORT void log_warning(std::string_view text);

}  // namespace zeroth::detail
