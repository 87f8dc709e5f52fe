// SPDX-License-Identifier: Apache-2.0
/// What a program's exit status says to who started it: whether to start it again.
#pragma once
#include <exception>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// launch() returns one of the first three, and `zeroth run` obeys all.
struct ExitCode {
  ExitCode() = delete;
  static constexpr int done = 0;  ///< All that was to be done.
  /// A rank, a machine or a file failed, or memory ran out: another try may do.
  static constexpr int failed = 1;
  /// The program or a file that it was given is wrong (ContractError, ConfigError, DamagedError): another try would end
  /// alike.
  static constexpr int wrong = 2;
  /// Not done: what was asked to stop has saved, and has ended. It goes on where somebody starts it again, and nobody
  /// should on their own. For programs that save; EX_TEMPFAIL of sysexits.h.
  static constexpr int stopped = 75;
};

/// `wrong` for ConfigError, ContractError and DamagedError, otherwise `failed`: for a main() that catches.
[[nodiscard]] ZEROTH_EXPORT int exit_code_of(std::exception const& error) noexcept;

}  // namespace zeroth
