// SPDX-License-Identifier: Apache-2.0
/// TCP sockets that neither block, nor reach child processes, nor raise SIGPIPE.
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// The number of connections without data that a listener keeps, in addition to the ranks that may arrive at once; and
/// its pause after the system has refused a new one.
inline constexpr std::size_t most_pending_connections = 64;
inline constexpr std::chrono::milliseconds rest_after_refused_accept{200};
/// A rank that cannot connect for this long logs it.
inline constexpr std::chrono::seconds silence_before_log{10};

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_{number} {}
  Descriptor(Descriptor&& other) noexcept : number_{std::exchange(other.number_, -1)} {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  [[nodiscard]] int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// "node7:29500", "[fd00::2]:29500".
[[nodiscard]] std::string address_of(std::string_view host, int port);

/// Listens at `port`, or at a free one if that is 0: only on the loopback interface if `host` is a loopback address or
/// "localhost", otherwise on every interface, IPv6 and IPv4. On failure returns an empty Descriptor and sets `error` to
/// errno.
[[nodiscard]] Descriptor listen_at(std::string const& host, int port, int& error);
/// Like listen_at(), at one numeric address of this machine.
[[nodiscard]] Descriptor listen_on(std::string const& address, int port, int& error);
[[nodiscard]] int port_of(Descriptor const& listener);
/// Whether `host` is a loopback address, or "localhost".
[[nodiscard]] bool is_loopback(std::string const& host);
/// The numeric addresses of both ends of a connection, without ports.
struct Ends {
  std::string here, there;
};
[[nodiscard]] Ends ends_of(Descriptor const& socket);
/// The first address of this machine's interface `name`: IPv4 before IPv6, no link-local ones. Throws ConfigError that
/// lists the interfaces.
[[nodiscard]] std::string address_of_interface(std::string const& name);

struct Arrival {
  Descriptor socket;
  std::string address;  ///< The peer's address, with its port.
};
/// Accepts the next connection, if any. Sets `error` to errno if the system refused, otherwise to 0.
[[nodiscard]] std::optional<Arrival> accept_from(Descriptor const& listener, int& error);

/// The result of one attempt: a socket, or the reason why there is none.
struct Attempt {
  Descriptor socket;
  std::string problem;
};
/// Tries every address of `host`, each for at most a few seconds. Resolving a name may take longer than `deadline`.
[[nodiscard]] Attempt connect_to(std::string const& host, int port, Clock::time_point deadline);

/// Begins to connect to a numeric address. Once the socket is writable, connect_error() has the result.
[[nodiscard]] Attempt begin_to_connect(std::string const& address, int port);
/// Returns 0 or errno.
[[nodiscard]] int connect_error(Descriptor const& socket);

/// Makes the system keep a connection whose other machine acknowledges nothing for `silence`, so that the store can
/// report that first. New connections have 10 s; the maximum is 10 min.
void endure(Descriptor const& socket, std::chrono::milliseconds silence) noexcept;
inline constexpr std::chrono::milliseconds longest_endured{std::chrono::minutes{10}};

/// Both ends of a connection inside this process.
[[nodiscard]] std::pair<Descriptor, Descriptor> socket_pair();

/// Waits until poll() reports one of `events`; false at the deadline.
[[nodiscard]] bool await_socket(Descriptor const& socket, short events, Clock::time_point deadline);
/// poll()'s timeout for a wait until `deadline`, rounded up so that a loop does not wake too early and spin.
[[nodiscard]] int poll_timeout(Clock::time_point now, Clock::time_point deadline) noexcept;
/// The text of strerror().
[[nodiscard]] std::string error_text(int number);

}  // namespace zeroth::comm
