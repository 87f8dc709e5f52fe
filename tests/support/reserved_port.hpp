// SPDX-License-Identifier: Apache-2.0
/// A port for a store that a test starts later.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace zeroth::testing {

/// A port of 127.0.0.1 that nothing else is assigned while this lives: a program that asks for any free port, or
/// connects, gets another one. A store can listen at it, since it is only bound here. Connections before that are
/// refused.
class ReservedPort {
 public:
  ReservedPort() : socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    int const yes = 1;
    sockaddr_in address{};
    socklen_t bytes = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (socket_ < 0 || ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        ::bind(socket_, any, bytes) != 0 || ::getsockname(socket_, any, &bytes) != 0) {
      throw std::system_error{errno, std::generic_category(), "a port for a test"};
    }
    number_ = ntohs(address.sin_port);
  }
  ReservedPort(ReservedPort const&) = delete;
  ReservedPort& operator=(ReservedPort const&) = delete;
  ~ReservedPort() { ::close(socket_); }

  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int socket_;
  int number_ = 0;
};

}  // namespace zeroth::testing
