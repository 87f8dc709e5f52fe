// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/incoming.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace zeroth::comm {

std::string Incoming::advance(Takers const& takers) {
  constexpr std::size_t most_at_once = 1 << 20;  // then other connections get a turn
  for (std::size_t taken = 0; taken < most_at_once;) {
    bool const in_head = come_ < wire_head_bytes;
    void* const to = in_head ? static_cast<void*>(head_bytes_.data() + come_) : to_ + (come_ - wire_head_bytes);
    std::size_t const wanted = in_head ? wire_head_bytes - come_ : wire_head_bytes + head_.bytes - come_;
    auto const bytes = ::recv(socket_.get(), to, wanted, MSG_DONTWAIT);
    if (bytes < 0) {
      return errno == EAGAIN || errno == EINTR ? std::string{} : error_text(errno);
    }
    if (bytes == 0) {
      return "it closed the connection";
    }
    come_ += static_cast<std::size_t>(bytes);
    taken += static_cast<std::size_t>(bytes);
    if (in_head && come_ == wire_head_bytes) {
      head_ = decode_wire_head(head_bytes_);
      words_.resize(head_.kind == WireKind::data ? 0 : head_.bytes);
      to_ = head_.kind == WireKind::data ? takers.place(head_) : reinterpret_cast<std::byte*>(words_.data());
    }
    if (come_ >= wire_head_bytes && come_ == wire_head_bytes + head_.bytes) {
      come_ = 0;
      takers.whole(head_, words_);
    }
  }
  return {};
}

}  // namespace zeroth::comm
