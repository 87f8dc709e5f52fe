// SPDX-License-Identifier: Apache-2.0
/// Slurm's compressed lists of machines.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::comm {

/// Expands "a[001-003,7],b2,c[1-2]-ib" to a001 a002 a003 a7 b2 c1-ib c2-ib. Every number in brackets keeps the leading
/// zeros of its range's first one, and the last of several brackets in a name varies fastest. Throws ConfigError for an
/// invalid list, with the list, its `variable` and the position of the error.
[[nodiscard]] std::vector<std::string> expand_node_list(std::string_view list, std::string_view variable);

}  // namespace zeroth::comm
