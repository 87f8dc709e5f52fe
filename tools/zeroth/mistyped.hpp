// SPDX-License-Identifier: Apache-2.0
/// Suggestions for mistyped commands and options.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace zeroth::tools {

/// A line such as "did you mean plan?", for the first word of the command line that is no command or option at its
/// place but resembles one. Empty if `error` has another cause, or nothing is similar.
[[nodiscard]] std::string what_was_meant(CLI::App const& app, int argc, char const* const* argv,
                                         CLI::ParseError const& error);

}  // namespace zeroth::tools
