// SPDX-License-Identifier: Apache-2.0
/// Tables for a terminal.
#pragma once
#include <string>
#include <vector>

#include "paper.hpp"

namespace zeroth::tools {

using Row = std::vector<std::string>;

/// Aligns the first column to the left and the others to the right. A row of two cells is a remark and needs no column.
/// If the paper is too narrow for all columns, the table continues below, with the first column repeated.
[[nodiscard]] std::string aligned(std::vector<Row> const& rows, Paper const& paper = {});

}  // namespace zeroth::tools
