// SPDX-License-Identifier: Apache-2.0
/// Checks what must hold for any text.
#pragma once
#include <string_view>

namespace zeroth::testing {

enum class Outcome { refused, accepted };

/// Reads `text` as a stage file and uses the result. The library may only throw ConfigError, and this function only
/// std::logic_error, with the failed check.
Outcome fuzz_one(std::string_view text);

}  // namespace zeroth::testing
