// SPDX-License-Identifier: Apache-2.0
/// Tables for a terminal.
#pragma once
#include <string>
#include <vector>

namespace zeroth::tools {

using Row = std::vector<std::string>;

/// The first column to the left, all others to the right. A row of two cells is a remark and needs no column.
[[nodiscard]] std::string aligned(std::vector<Row> const& rows);

}  // namespace zeroth::tools
