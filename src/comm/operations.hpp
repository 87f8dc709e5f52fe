// SPDX-License-Identifier: Apache-2.0
/// Kinds of operations, and options that are allowed.
#pragma once
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// Collective::peer is one rank on which the others agree.
[[nodiscard]] constexpr bool has_root(Operation operation) noexcept {
  return operation == Operation::broadcast || operation == Operation::reduce || operation == Operation::gather ||
         operation == Operation::scatter;
}
/// Elements of the ranks are folded by Collective::reduce.
[[nodiscard]] constexpr bool is_reduction(Operation operation) noexcept {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter || operation == Operation::reduce;
}
/// Concerns two ranks, and not the others.
[[nodiscard]] constexpr bool is_message(Operation operation) noexcept {
  return operation == Operation::send || operation == Operation::receive;
}

/// Throws ContractError.
void check(CommOptions const& options);

}  // namespace zeroth::comm
