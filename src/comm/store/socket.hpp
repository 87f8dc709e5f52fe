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

/// Who listens keeps so many that have said nothing yet, beside the ranks that may come at once, and rests so long when
/// the system gives it no more.
inline constexpr std::size_t most_pending_connections = 64;
inline constexpr std::chrono::milliseconds rest_after_refused_accept{200};
/// Who dials in vain for so long logs it.
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

/// Listens at `port`, or at a free one if that is 0: on the loopback interface alone if `host` is a loopback address or
/// "localhost", on every interface, IPv6 and IPv4, otherwise. Nothing where the system refuses; `error` is errno then.
[[nodiscard]] Descriptor listen_at(std::string const& host, int port, int& error);
/// As listen_at(), at one address of this machine, a number.
[[nodiscard]] Descriptor listen_on(std::string const& address, int port, int& error);
[[nodiscard]] int port_of(Descriptor const& listener);
/// Is `host` a loopback address, or "localhost"?
[[nodiscard]] bool is_loopback(std::string const& host);
/// Both ends of a connection, numbers without their ports.
struct Ends {
  std::string here, there;
};
[[nodiscard]] Ends ends_of(Descriptor const& socket);
/// The first address of this machine's interface `name`, IPv4 before IPv6 and none of a link alone. Throws ConfigError
/// that lists the interfaces.
[[nodiscard]] std::string address_of_interface(std::string const& name);

struct Arrival {
  Descriptor socket;
  std::string address;  ///< Where it comes from, with its port.
};
/// The next one that knocks; none if there is none. `error` becomes errno if the system refused, and 0 otherwise.
[[nodiscard]] std::optional<Arrival> accept_from(Descriptor const& listener, int& error);

/// One attempt: a socket, or why there is none.
struct Attempt {
  Descriptor socket;
  std::string problem;
};
/// Tries every address of `host`, each for a few seconds at most. A name may take the resolver longer than `deadline`.
[[nodiscard]] Attempt connect_to(std::string const& host, int port, Clock::time_point deadline);

/// Begins to connect to an address, a number; connect_error() tells how that went once the socket can be written to.
[[nodiscard]] Attempt begin_to_connect(std::string const& address, int port);
/// 0, or the reason as errno has it.
[[nodiscard]] int connect_error(Descriptor const& socket);

/// Lets the system try again, and not give the connection up, while the other machine may acknowledge nothing for
/// `silence` and somebody is to say so first. Connections begin with 10 s; 10 min are possible.
void endure(Descriptor const& socket, std::chrono::milliseconds silence) noexcept;
inline constexpr std::chrono::milliseconds longest_endured{std::chrono::minutes{10}};

/// Both ends of a connection inside this process.
[[nodiscard]] std::pair<Descriptor, Descriptor> socket_pair();

/// Waits until poll() has something to say about `events`; false at the deadline.
[[nodiscard]] bool await_socket(Descriptor const& socket, short events, Clock::time_point deadline);
/// poll()'s timeout for a wait until `deadline`: rounded up, so that nobody wakes too early and turns in circles.
[[nodiscard]] int poll_timeout(Clock::time_point now, Clock::time_point deadline) noexcept;
/// What strerror says.
[[nodiscard]] std::string error_text(int number);

}  // namespace zeroth::comm
