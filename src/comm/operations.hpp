// SPDX-License-Identifier: Apache-2.0
/// Kinds of operations, and checks of options and names.
#pragma once
#include <string>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// Whether Collective::peer is a root, the same on all ranks.
[[nodiscard]] constexpr bool has_root(Operation operation) noexcept {
  return operation == Operation::broadcast || operation == Operation::reduce || operation == Operation::gather ||
         operation == Operation::scatter;
}
/// Whether elements of the ranks are folded by Collective::reduce.
[[nodiscard]] constexpr bool is_reduction(Operation operation) noexcept {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter || operation == Operation::reduce;
}
/// Whether it concerns only two ranks.
[[nodiscard]] constexpr bool is_message(Operation operation) noexcept {
  return operation == Operation::send || operation == Operation::receive;
}

/// Throws ContractError for invalid options.
void check(CommOptions const& options);
/// Throws ContractError if a new communicator cannot have this name. `call` made it, for the message.
void check_name(Communicator const& communicator, char const* call, std::string const& name);

}  // namespace zeroth::comm
