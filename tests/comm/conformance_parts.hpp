// SPDX-License-Identifier: Apache-2.0
/// The parts of the suite, and the helpers that they share.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/conformance.hpp"

namespace zeroth::comm::conformance {

[[nodiscard]] std::vector<Case> operation_cases();
[[nodiscard]] std::vector<Case> reduction_cases();
[[nodiscard]] std::vector<Case> adjoint_cases();
[[nodiscard]] std::vector<Case> message_cases();
[[nodiscard]] std::vector<Case> uneven_cases();
[[nodiscard]] std::vector<Case> transaction_cases();
[[nodiscard]] std::vector<Case> split_cases();
[[nodiscard]] std::vector<Case> group_cases();
[[nodiscard]] std::vector<Case> contract_cases();

/// A part of a communicator, with its own staging memory for `count` elements of fp64.
class Part {
 public:
  Part(Communicator& whole, int color, int key, std::string const& name, std::int64_t count = largest_count);
  [[nodiscard]] bool exists() const noexcept { return communicator_ != nullptr; }
  [[nodiscard]] Communicator& communicator() noexcept { return *communicator_; }

 private:
  std::vector<std::byte> staging_;  // outlives the communicator
  std::unique_ptr<Communicator> communicator_;
};

/// The first of two problems.
[[nodiscard]] inline std::string first_of(std::string const& one, std::string const& other) {
  return one.empty() ? other : one;
}

/// The exception of `stream`, as text; empty if there is none.
[[nodiscard]] std::string error_of(device::Stream& stream);

}  // namespace zeroth::comm::conformance
