// SPDX-License-Identifier: Apache-2.0
/// Exit codes, which tell a launcher whether to restart a program.
#pragma once
#include <exception>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// launch() returns one of the first three. `zeroth run` understands all of them.
struct ExitCode {
  ExitCode() = delete;
  static constexpr int done = 0;  ///< Success.
  /// A rank, a machine or a file failed, or memory ran out. A retry may succeed.
  static constexpr int failed = 1;
  /// The program, or a file given to it, is invalid (ContractError, ConfigError, DamagedError). A retry would fail the
  /// same way.
  static constexpr int wrong = 2;
  /// Stopped on request after saving; training is unfinished and resumes if it is started again, which no launcher
  /// should do on its own. For programs that save. It is EX_TEMPFAIL of sysexits.h.
  static constexpr int stopped = 75;
};

/// Returns `wrong` for ConfigError, ContractError and DamagedError, otherwise `failed`. For a main() that catches
/// exceptions.
[[nodiscard]] ZEROTH_EXPORT int exit_code_of(std::exception const& error) noexcept;

}  // namespace zeroth
