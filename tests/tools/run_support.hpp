// SPDX-License-Identifier: Apache-2.0
/// Runs `zeroth run` with programs that write notes into their folder.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "support/child.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {

using Words = std::vector<std::string>;

/// `zeroth run OPTIONS -- PROGRAM` in `folder`.
[[nodiscard]] Child::Options zeroth_run(Words const& options, Words const& program, Folder const& folder);
/// `zeroth run` with lines of sh, in which $1 is the number of the attempt. The file `attempts` in the folder gets a
/// line for each call of `note`.
[[nodiscard]] Child::Options zeroth_run_script(Words const& options, std::string const& script, Folder const& folder);
/// `zeroth run` with the program of tests/faults.
[[nodiscard]] Child::Options zeroth_run_ranks(Words const& options, Words const& scenario, Folder const& folder);

/// The lines of a file in the folder, each followed by a blank. Empty if there is no file.
[[nodiscard]] std::string lines_of(Folder const& folder, std::string const& name);
/// Whether the process is gone, or will be soon.
[[nodiscard]] bool is_gone(int process);
/// The number that follows `words` in `text`.
[[nodiscard]] int number_behind(std::string const& text, std::string const& words);

}  // namespace zeroth::testing
