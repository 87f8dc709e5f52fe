// SPDX-License-Identifier: Apache-2.0
/// Tables for a terminal.
#pragma once
#include <string>
#include <vector>

#include "paper.hpp"

namespace zeroth::tools {

using Row = std::vector<std::string>;

/// The first column to the left, all others to the right. A row of two cells is a remark and needs no column. Where the
/// paper is too narrow for all columns, as many as it has room for stand beside the first, and the next ones below,
/// beside the first again.
[[nodiscard]] std::string aligned(std::vector<Row> const& rows, Paper const& paper = {});

}  // namespace zeroth::tools
