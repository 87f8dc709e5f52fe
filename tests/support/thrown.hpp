// SPDX-License-Identifier: Apache-2.0
/// The exception of a call, as text.
#pragma once
#include <exception>
#include <string>
#include <type_traits>

namespace zeroth::testing {

/// The message of the E that `call` throws; "" if it throws nothing. Another type passes through, and fails the test.
template <class E, class F>
[[nodiscard]] std::string thrown(F const& call) {
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
    } else {
      static_cast<void>(call());
    }
  } catch (E const& error) {
    return error.what();
  }
  return {};
}

}  // namespace zeroth::testing
