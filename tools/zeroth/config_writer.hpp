// SPDX-License-Identifier: Apache-2.0
/// `zeroth config --write`: asks questions about a job, and writes a stage file that fits.
#pragma once
#include <filesystem>
#include <iosfwd>

#include "page.hpp"

namespace zeroth::tools {

/// Asks seven questions on `questions`, reads a line for each from `answers`, and writes a commented stage file: with
/// the first stage, 0 to 3 and then 3 with states and parameters on a disk, that leaves a quarter of a rank's memory to
/// activations. An empty line, or the end of `answers`, means the default. With `asks_again` a wrong answer is asked
/// for again, otherwise it throws ConfigError, which names question, answer, and what is allowed.
///
/// Never replaces a file: throws ConfigError if `path` exists. If nothing fits, writes nothing, says what is needed,
/// and sets the page's status to does_not_fit.
void write_config(std::filesystem::path const& path, std::istream& answers, std::ostream& questions, bool asks_again,
                  Page& page);

}  // namespace zeroth::tools
