/// Tables for a terminal.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zeroth::tools {

using Row = std::vector<std::string>;

/// The first column to the left, all others to the right. A row of two cells is a remark and needs no column.
[[nodiscard]] std::string aligned(std::vector<Row> const& rows);

/// 1234567 as 1,234,567.
[[nodiscard]] std::string grouped(std::int64_t number);

}  // namespace zeroth::tools
