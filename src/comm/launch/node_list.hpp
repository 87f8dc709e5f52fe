// SPDX-License-Identifier: Apache-2.0
/// Slurm's short form of a list of machines.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::comm {

/// "a[001-003,7],b2,c[1-2]-ib" is a001 a002 a003 a7 b2 c1-ib c2-ib: every number in brackets keeps the zeros in front
/// of its range's first, and the last of several brackets in a name runs fastest. Throws ConfigError for what is no
/// such list: it quotes the list, with the variable that it is from, and says where it goes wrong.
[[nodiscard]] std::vector<std::string> expand_node_list(std::string_view list, std::string_view variable);

}  // namespace zeroth::comm
