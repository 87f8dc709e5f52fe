// SPDX-License-Identifier: Apache-2.0
#include "comm/store/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <system_error>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds patience_per_address{5};
constexpr std::chrono::seconds shortest_longest_retry{1};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct Resolution {
  Addresses addresses{nullptr, &::freeaddrinfo};
  std::string problem;
};

Resolution resolve(std::string const& host, int port, int flags = 0) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  int const code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  Resolution resolution;
  if (code == 0) {
    resolution.addresses.reset(found);
  } else {
    resolution.problem = fmt::format("the name '{}' cannot be resolved: {}", host,
                                     code == EAI_SYSTEM ? error_text(errno) : ::gai_strerror(code));
  }
  return resolution;
}

/// A socket address in the system's format.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress any_address(int family, int port) {
  SocketAddress address;
  if (family == AF_INET6) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    six.sin6_addr = in6addr_any;
    std::memcpy(&address.storage, &six, sizeof six);
    address.bytes = sizeof six;
  } else {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    four.sin_addr.s_addr = htonl(INADDR_ANY);
    std::memcpy(&address.storage, &four, sizeof four);
    address.bytes = sizeof four;
  }
  return address;
}

/// The loopback address that `host` spells; nullopt for anything else. A name that resolves to one does not count: some
/// systems resolve their own name to a loopback address, which other machines cannot reach.
std::optional<SocketAddress> loopback_address(std::string const& host, int port) {
  std::string const number = host == "localhost" ? "127.0.0.1" : host;
  in_addr four{};
  in6_addr six{};
  if (::inet_pton(AF_INET, number.c_str(), &four) == 1 && ntohl(four.s_addr) >> 24U == 127) {
    auto address = any_address(AF_INET, port);
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr = four;
    return address;
  }
  if (::inet_pton(AF_INET6, number.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six)) {
    auto address = any_address(AF_INET6, port);
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr = six;
    return address;
  }
  return std::nullopt;
}

/// Empty for an invalid address.
std::string number_of(sockaddr const* address, socklen_t bytes) {
  std::array<char, NI_MAXHOST> host{};
  bool const is_one = ::getnameinfo(address, bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return is_one ? host.data() : std::string{};
}

std::string words_of(SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address.get(), address.bytes, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return address_of(host.data(), std::atoi(port.data()));
}

/// Limits the interval between retransmissions. Otherwise a link that was cut for some seconds would stay silent for as
/// long again; kernels before 6.15 wait up to two minutes.
void set_longest_retry(int socket, milliseconds longest) noexcept {
  constexpr int longest_retry_option = 44;  // TCP_RTO_MAX_MS, which older headers do not have
  auto const longest_ms = static_cast<int>(longest.count());
  ::setsockopt(socket, IPPROTO_TCP, longest_retry_option, &longest_ms, sizeof longest_ms);
}

/// Disables the delay of small messages.
void send_at_once(int socket) noexcept {
  int const yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  set_longest_retry(socket, shortest_longest_retry);
}

Descriptor try_to_listen(SocketAddress& address, int& error) {
  Descriptor socket{::socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!socket) {
    error = errno;
    return {};
  }
  int const yes = 1;
  int const no = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // despite connections in TIME_WAIT
  if (address.get()->sa_family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (::bind(socket.get(), address.get(), address.bytes) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    error = errno;
    return {};
  }
  return socket;
}

/// A client that connects to a local port without a listener may be assigned that same port, and is then connected to
/// itself.
bool is_connected_to_itself(int socket) {
  SocketAddress mine;
  SocketAddress theirs;
  if (::getsockname(socket, mine.get(), &mine.bytes) != 0 || ::getpeername(socket, theirs.get(), &theirs.bytes) != 0) {
    return false;
  }
  return mine.bytes == theirs.bytes && std::memcmp(&mine.storage, &theirs.storage, mine.bytes) == 0;
}

/// Returns 0 or errno.
int start_to_connect(Descriptor const& socket, addrinfo const& address) {
  bool const begun =
      ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0 || errno == EINPROGRESS || errno == EINTR;
  return begun ? 0 : errno;
}

int try_to_connect(Descriptor const& socket, addrinfo const& address, Clock::time_point deadline) {
  if (int const error = start_to_connect(socket, address); error != 0) {
    return error;
  }
  return await_socket(socket, POLLOUT, deadline) ? connect_error(socket) : ETIMEDOUT;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) {
    ::close(number_);
  }
}

std::string address_of(std::string_view host, int port) {
  bool const is_ipv6 = host.find(':') != std::string_view::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Descriptor listen_at(std::string const& host, int port, int& error) {
  if (auto loopback = loopback_address(host, port)) {
    return try_to_listen(*loopback, error);
  }
  auto address = any_address(AF_INET6, port);
  auto socket = try_to_listen(address, error);
  if (!socket && (error == EAFNOSUPPORT || error == EADDRNOTAVAIL)) {  // a machine without IPv6
    address = any_address(AF_INET, port);
    socket = try_to_listen(address, error);
  }
  return socket;
}

Descriptor listen_on(std::string const& address, int port, int& error) {
  auto const resolution = resolve(address, port, AI_NUMERICHOST | AI_PASSIVE);
  if (!resolution.addresses) {
    error = EADDRNOTAVAIL;
    return {};
  }
  SocketAddress place;
  place.bytes = resolution.addresses->ai_addrlen;
  std::memcpy(&place.storage, resolution.addresses->ai_addr, place.bytes);
  return try_to_listen(place, error);
}

bool is_loopback(std::string const& host) { return loopback_address(host, 0).has_value(); }

Ends ends_of(Descriptor const& socket) {
  SocketAddress mine;
  SocketAddress theirs;
  if (::getsockname(socket.get(), mine.get(), &mine.bytes) != 0 ||
      ::getpeername(socket.get(), theirs.get(), &theirs.bytes) != 0) {
    return {};
  }
  return {number_of(mine.get(), mine.bytes), number_of(theirs.get(), theirs.bytes)};
}

std::string address_of_interface(std::string const& name) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) {
    throw SystemError{"getifaddrs failed: " + error_text(errno)};
  }
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const all{found, &::freeifaddrs};
  std::string four;
  std::string six;
  std::set<std::string> names;
  for (auto const* each = all.get(); each != nullptr; each = each->ifa_next) {
    names.insert(each->ifa_name);
    if (name != each->ifa_name || each->ifa_addr == nullptr) {
      continue;
    }
    if (each->ifa_addr->sa_family == AF_INET && four.empty()) {
      four = number_of(each->ifa_addr, sizeof(sockaddr_in));
    } else if (each->ifa_addr->sa_family == AF_INET6 && six.empty() &&
               !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6 const*>(each->ifa_addr)->sin6_addr)) {
      six = number_of(each->ifa_addr, sizeof(sockaddr_in6));
    }
  }
  if (four.empty() && six.empty()) {
    throw ConfigError{
        fmt::format("interface '{}' has no address: this machine's interfaces are {}", name, fmt::join(names, ", "))};
  }
  return four.empty() ? six : four;
}

int port_of(Descriptor const& listener) {
  SocketAddress address;
  if (::getsockname(listener.get(), address.get(), &address.bytes) != 0) {
    throw SystemError{"getsockname failed: " + error_text(errno)};
  }
  return ntohs(address.get()->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port
                                                    : reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port);
}

std::optional<Arrival> accept_from(Descriptor const& listener, int& error) {
  while (true) {
    SocketAddress address;
    Descriptor socket{::accept4(listener.get(), address.get(), &address.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (socket) {
      error = 0;
      send_at_once(socket.get());
      return Arrival{std::move(socket), words_of(address)};
    }
    if (errno != EINTR && errno != ECONNABORTED) {
      error = errno == EAGAIN ? 0 : errno;
      return std::nullopt;
    }
  }
}

Attempt connect_to(std::string const& host, int port, Clock::time_point deadline) {
  auto const resolution = resolve(host, port);
  Attempt attempt{{}, resolution.problem};
  for (auto const* each = resolution.addresses.get(); each != nullptr; each = each->ai_next) {
    Descriptor socket{::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    int const error =
        socket ? try_to_connect(socket, *each, std::min(deadline, Clock::now() + patience_per_address)) : errno;
    if (error == 0) {
      send_at_once(socket.get());
      return {std::move(socket), {}};
    }
    if (attempt.problem.empty() || error != EAFNOSUPPORT) {
      attempt.problem = error_text(error);
    }
  }
  return attempt;
}

Attempt begin_to_connect(std::string const& address, int port) {
  auto const resolution = resolve(address, port, AI_NUMERICHOST);
  if (!resolution.addresses) {
    return {{}, resolution.problem};
  }
  Descriptor socket{::socket(resolution.addresses->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  int const error = socket ? start_to_connect(socket, *resolution.addresses) : errno;
  if (error != 0) {
    return {{}, error_text(error)};
  }
  send_at_once(socket.get());
  return {std::move(socket), {}};
}

/// The system gives up after 15 retries, the first few at shorter intervals. With six of them in `silence`, it gives up
/// at least a third later.
void endure(Descriptor const& socket, milliseconds silence) noexcept {
  set_longest_retry(socket.get(), std::max<milliseconds>(shortest_longest_retry, silence / 6));
}

int connect_error(Descriptor const& socket) {
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error == 0 && is_connected_to_itself(socket.get()) ? ECONNREFUSED : error;
}

std::pair<Descriptor, Descriptor> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw SystemError{"socketpair failed: " + error_text(errno)};
  }
  return {Descriptor{ends[0]}, Descriptor{ends[1]}};
}

bool await_socket(Descriptor const& socket, short events, Clock::time_point deadline) {
  while (true) {
    pollfd entry{socket.get(), events, 0};
    auto const now = Clock::now();
    int const ready = ::poll(&entry, 1, poll_timeout(now, deadline));
    if (ready > 0) {
      return true;
    }
    if (ready < 0 && errno != EINTR) {
      throw SystemError{"poll failed: " + error_text(errno)};
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

int poll_timeout(Clock::time_point now, Clock::time_point deadline) noexcept {
  if (deadline <= now) {
    return 0;
  }
  auto const left = std::chrono::ceil<milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<decltype(left)>(left, std::numeric_limits<int>::max()));
}

std::string error_text(int number) { return std::generic_category().message(number); }

}  // namespace zeroth::comm
