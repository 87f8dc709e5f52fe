// SPDX-License-Identifier: Apache-2.0
/// What is thrown, and who is speaking.
#pragma once
#include <stdexcept>
#include <string>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Labels messages, decides nothing. Thread-local, because ranks may be threads. `device` is empty or, say, "cuda:3".
struct RankContext {
  int rank = -1;       ///< Of the job; -1 outside one.
  int world = -1;      ///< Ranks of the job.
  std::string device;  ///< As messages call it.
};
/// The calling thread's own; who writes to it relabels that thread's messages.
[[nodiscard]] ZEROTH_EXPORT RankContext& this_rank() noexcept;
/// "[rank 3/8 cuda:3] ", or empty outside a job.
[[nodiscard]] ZEROTH_EXPORT std::string rank_prefix();

/// what() starts with the rank: "[rank 3/8 cuda:3] ...".
struct ZEROTH_EXPORT Error : std::runtime_error {
  /// Puts the calling thread's rank_prefix() before `message`.
  explicit Error(std::string const& message) : std::runtime_error{rank_prefix() + message} {}
};
/// The file is wrong: all problems, each with its remedy.
struct ZEROTH_EXPORT ConfigError final : Error {
  using Error::Error;
};
/// The caller is wrong: names the unit and both states.
struct ZEROTH_EXPORT ContractError final : Error {
  using Error::Error;
};
/// Another rank is gone or elsewhere: who, unit, collective.
struct ZEROTH_EXPORT PeerError : Error {
  using Error::Error;
};
/// The machine is wrong: a file, a library or the system below refused; names the call and its reason.
struct ZEROTH_EXPORT SystemError : Error {
  using Error::Error;
};
/// What is on the disk is proven wrong, and will be the next time as well: a hash, a size, a header, a file that is not
/// there. A plain SystemError says that something could not be read now.
struct ZEROTH_EXPORT DamagedError final : SystemError {
  using SystemError::SystemError;
};

namespace detail {
[[noreturn]] ZEROTH_EXPORT void throw_contract(char const* condition, std::string const& why, char const* file,
                                               int line);
}

/// Throws ContractError if `condition` is false, in every build. `why` is only evaluated then.
#define ZEROTH_EXPECTS(condition, why) \
  (static_cast<bool>(condition) ? void() : ::zeroth::detail::throw_contract(#condition, (why), __FILE__, __LINE__))

}  // namespace zeroth
