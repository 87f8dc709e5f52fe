// SPDX-License-Identifier: Apache-2.0
/// Turns a file that cannot be read into the error of its checkpoint.
#pragma once
#include <cerrno>
#include <string>

#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::checkpoint {

/// Throws `message` as DamagedError if the file is invalid or missing, and as SystemError if the system failed to read
/// it.
[[noreturn]] inline void throw_unreadable(std::string const& message, Unreadable const& error) {
  if (error.error == 0 || error.error == ENOENT || error.error == ENOTDIR) {
    throw DamagedError{message};
  }
  throw SystemError{message};
}

}  // namespace zeroth::checkpoint
