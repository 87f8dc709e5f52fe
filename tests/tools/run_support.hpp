// SPDX-License-Identifier: Apache-2.0
/// `zeroth run` with programs that note in their folder what they see.
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
/// The same of lines of sh, in which $1 is the number of the attempt. `attempts` in the folder has a line for each, of
/// what the script says with `note`.
[[nodiscard]] Child::Options zeroth_run_script(Words const& options, std::string const& script, Folder const& folder);
/// The same of tests/faults' program.
[[nodiscard]] Child::Options zeroth_run_ranks(Words const& options, Words const& scenario, Folder const& folder);

/// Of a file of the folder: its lines, each followed by a blank. Empty if there is none.
[[nodiscard]] std::string lines_of(Folder const& folder, std::string const& name);
/// The process is no more, or will not be soon.
[[nodiscard]] bool is_gone(int process);
/// The number behind `words` in `text`.
[[nodiscard]] int number_behind(std::string const& text, std::string const& words);

}  // namespace zeroth::testing
