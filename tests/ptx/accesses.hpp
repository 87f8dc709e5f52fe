// SPDX-License-Identifier: Apache-2.0
/// What the kernels' accesses to memory take, against the page that records it: docs/measured/accesses.md.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace zeroth::testing::ptx {

/// Writes a line for each kernel that ran: the name, a tab, passes over banks over the least, a tab, sectors over the
/// least. 0: there were none.
void write_accesses(std::filesystem::path const& file);

/// The kernels that take more than a tenth above what the page says for the architecture ("sm_80"), or that it does not
/// have: a sentence each.
[[nodiscard]] std::vector<std::string> slower_than(std::filesystem::path const& page, std::string const& architecture);

}  // namespace zeroth::testing::ptx
