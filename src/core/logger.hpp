// SPDX-License-Identifier: Apache-2.0
/// Where warnings go that end nothing.
#pragma once
#include <spdlog/spdlog.h>

namespace zeroth {

/// The program's, if it has set a default logger of its own (spdlog::set_default_logger). Otherwise one that writes to
/// standard error, at the level of spdlog's: its own default logger would write among the program's output.
[[nodiscard]] spdlog::logger& logger();

}  // namespace zeroth
