// SPDX-License-Identifier: Apache-2.0
/// What must hold for any text whatever.
#pragma once
#include <string_view>

namespace zeroth::testing {

enum class Outcome { refused, accepted };

/// Reads `text` as a stage file and uses what comes of it. Only ConfigError may come out of the library, and nothing
/// comes out of here but std::logic_error, with what did not hold.
Outcome fuzz_one(std::string_view text);

}  // namespace zeroth::testing
