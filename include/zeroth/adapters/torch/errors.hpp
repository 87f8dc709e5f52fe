// SPDX-License-Identifier: Apache-2.0
/// What libtorch throws, as this library says it.
#pragma once
#include <torch/torch.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter::detail {

/// What an engine threw where libtorch lets no exception through. libtorch then throws an error of its own, from the
/// parameter that could not be had; this is what it is about. One per thread, as ranks may be threads.
[[nodiscard]] inline std::exception_ptr& swallowed() noexcept {
  thread_local std::exception_ptr error;
  return error;
}

/// Throws what swallowed() has, or else libtorch's words without its backtrace. Those of a closed parameter begin with
/// the rank already.
[[noreturn]] inline void rethrow(c10::Error const& error) {
  if (auto const first = std::exchange(swallowed(), nullptr)) {
    std::rethrow_exception(first);
  }
  std::string_view words = error.what_without_backtrace();
  auto const prefix = rank_prefix();
  words.remove_prefix(words.starts_with(prefix) ? prefix.size() : 0);
  throw Error{std::string{words}};
}

/// Calls `f`, and turns errors of libtorch into Error.
template <class F>
decltype(auto) without_backtrace(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (c10::Error const& error) {
    rethrow(error);
  }
}

}  // namespace zeroth::torch_adapter::detail
