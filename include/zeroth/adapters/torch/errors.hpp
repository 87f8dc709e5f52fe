// SPDX-License-Identifier: Apache-2.0
/// Translates libtorch's exceptions into this library's.
#pragma once
#include <torch/torch.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter::detail {

/// An exception that an engine threw in a place from which libtorch does not propagate exceptions. libtorch then throws
/// its own error about the parameter that was not available; this one is the cause. One per thread, as ranks may be
/// threads.
[[nodiscard]] inline std::exception_ptr& swallowed() noexcept {
  thread_local std::exception_ptr error;
  return error;
}

/// Throws the exception in swallowed(), or else libtorch's message without its backtrace. Messages about a closed
/// parameter already begin with the rank.
[[noreturn]] inline void rethrow(c10::Error const& error) {
  if (auto const first = std::exchange(swallowed(), nullptr)) {
    std::rethrow_exception(first);
  }
  std::string_view words = error.what_without_backtrace();
  auto const prefix = rank_prefix();
  words.remove_prefix(words.starts_with(prefix) ? prefix.size() : 0);
  throw Error{std::string{words}};
}

/// Calls `f`, and converts libtorch's errors to Error.
template <class F>
decltype(auto) without_backtrace(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (c10::Error const& error) {
    rethrow(error);
  }
}

}  // namespace zeroth::torch_adapter::detail
