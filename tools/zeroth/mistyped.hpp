// SPDX-License-Identifier: Apache-2.0
/// Commands and options that are nearly known.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace zeroth::tools {

/// "did you mean plan?", a line for the first word of the command line that is no command or option where it stands and
/// is nearly one; empty where `error` is about something else, or nothing is near.
[[nodiscard]] std::string what_was_meant(CLI::App const& app, int argc, char const* const* argv,
                                         CLI::ParseError const& error);

}  // namespace zeroth::tools
