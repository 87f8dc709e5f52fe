// SPDX-License-Identifier: Apache-2.0
/// The logger for warnings that do not stop the program.
#pragma once
#include <spdlog/spdlog.h>

namespace zeroth {

/// The program's own logger, if it has set a default logger (spdlog::set_default_logger). Otherwise one that writes to
/// standard error at spdlog's level, because spdlog's default logger would write between the program's output.
[[nodiscard]] spdlog::logger& logger();

}  // namespace zeroth
