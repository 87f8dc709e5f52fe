/// Kinds of operations, and options that are allowed.
#pragma once
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// Collective::peer is one rank on which the others agree.
[[nodiscard]] constexpr bool has_root(Operation operation) noexcept {
  return operation == Operation::broadcast || operation == Operation::reduce || operation == Operation::gather ||
         operation == Operation::scatter;
}
/// Concerns two ranks, and not the others.
[[nodiscard]] constexpr bool is_message(Operation operation) noexcept {
  return operation == Operation::send || operation == Operation::receive;
}

/// Throws ContractError.
void check(CommOptions const& options);

}  // namespace zeroth::comm
