// SPDX-License-Identifier: Apache-2.0
/// Exceptions, and the label of the rank in messages.
#pragma once
#include <stdexcept>
#include <string>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Labels messages, and has no other effect. Thread-local, because ranks may be threads.
struct RankContext {
  int rank = -1;       ///< Rank in the job; -1 outside a job.
  int world = -1;      ///< Ranks of the job; -1 outside a job.
  std::string device;  ///< The device in messages, such as "cuda:3"; may be empty.
};
/// The calling thread's context. Writing to it relabels that thread's messages.
[[nodiscard]] ZEROTH_EXPORT RankContext& this_rank() noexcept;
/// The prefix of messages: "[rank 3/8 cuda:3] ", or empty outside a job.
[[nodiscard]] ZEROTH_EXPORT std::string rank_prefix();

/// The base class of all errors. what() starts with the rank: "[rank 3/8 cuda:3] ...".
struct ZEROTH_EXPORT Error : std::runtime_error {
  /// Prefixes `message` with the calling thread's rank_prefix().
  explicit Error(std::string const& message) : std::runtime_error{rank_prefix() + message} {}
};
/// A file is invalid. Lists all problems, each with its remedy.
struct ZEROTH_EXPORT ConfigError final : Error {
  using Error::Error;
};
/// The caller broke a rule. Names the unit and both states.
struct ZEROTH_EXPORT ContractError final : Error {
  using Error::Error;
};
/// Another rank left or diverged. Names the rank, unit and collective.
struct ZEROTH_EXPORT PeerError : Error {
  using Error::Error;
};
/// An operation of the OS, of a library or on a file failed. Names the call and the reason.
struct ZEROTH_EXPORT SystemError : Error {
  using Error::Error;
};
/// Data on disk is provably damaged, and a retry would fail the same way: a wrong hash, size or header, or a missing
/// file. A plain SystemError says that something could not be read this time.
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
