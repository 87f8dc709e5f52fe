// SPDX-License-Identifier: Apache-2.0
/// Compares the cost of the kernels' memory accesses with the page that records it: docs/measured/accesses.md.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace zeroth::testing::ptx {

/// Writes a line for each kernel that ran: the name, a tab, the ratio of passes over banks to their minimum, a tab, the
/// ratio of sectors to their minimum. 0: there were none.
void write_accesses(std::filesystem::path const& file);

/// A sentence for each kernel that takes over a tenth more than the page's figure for the architecture ("sm_80"), or
/// that the page lacks.
[[nodiscard]] std::vector<std::string> slower_than(std::filesystem::path const& page, std::string const& architecture);

}  // namespace zeroth::testing::ptx
