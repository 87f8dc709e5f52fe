// SPDX-License-Identifier: Apache-2.0
/// Threads that the library starts for itself.
#pragma once
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth {

/// Returns a thread that runs `run`. Throws SystemError that names `what` lacks a thread, the reason, and the remedy.
template <class F>
[[nodiscard]] std::thread start_thread(std::string_view what, F&& run) {
  try {
    return std::thread{std::forward<F>(run)};
  } catch (std::system_error const& error) {
    throw SystemError{"cannot start a thread for " + std::string{what} + ": " + error.code().message() +
                      "; run fewer ranks on this machine, or raise its limit of threads (ulimit -u, a container's "
                      "limit of processes) or of memory (ulimit -v)"};
  }
}

}  // namespace zeroth
