/// What is thrown, and who is speaking.
#pragma once
#include <stdexcept>
#include <string>

namespace zeroth {

/// Labels messages, decides nothing. Thread-local, because ranks may be threads. `device` is empty or, say, "cuda:3".
struct RankContext {
  int rank = -1;
  int world = -1;
  std::string device;
};
[[nodiscard]] RankContext& this_rank() noexcept;
/// "[rank 3/8 cuda:3] ", or empty outside a job.
[[nodiscard]] std::string rank_prefix();

/// what() starts with the rank: "[rank 3/8 cuda:3] ...".
struct Error : std::runtime_error {
  explicit Error(std::string const& message) : std::runtime_error{rank_prefix() + message} {}
};
/// The file is wrong: all problems, each with its remedy.
struct ConfigError final : Error {
  using Error::Error;
};
/// The caller is wrong: names the unit and both states.
struct ContractError final : Error {
  using Error::Error;
};
/// Another rank is gone or elsewhere: who, unit, collective.
struct PeerError : Error {
  using Error::Error;
};
/// The machine is wrong: a file, a library or the system below refused; names the call and its reason.
struct SystemError final : Error {
  using Error::Error;
};

namespace detail {
[[noreturn]] void throw_contract(char const* condition, std::string const& why, char const* file, int line);
}

/// Throws ContractError if `condition` is false, in every build. `why` is only evaluated then.
#define ZEROTH_EXPECTS(condition, why) \
  (static_cast<bool>(condition) ? void() : ::zeroth::detail::throw_contract(#condition, (why), __FILE__, __LINE__))

}  // namespace zeroth
