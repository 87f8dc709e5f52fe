// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/wire.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "comm/store/frame.hpp"

namespace zeroth::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "heads are copied as they lie in memory");

constexpr std::string_view wire_magic = "zeroth tcp";

}  // namespace

std::array<char, wire_head_bytes> encode(WireHead const& head) noexcept {
  std::array<char, wire_head_bytes> bytes{};
  bytes[0] = static_cast<char>(head.kind);
  bytes[1] = static_cast<char>(head.tag);
  bytes[2] = head.last ? 1 : 0;
  std::memcpy(bytes.data() + 4, head.kind == WireKind::want ? &head.outline : &head.bytes, 4);
  std::memcpy(bytes.data() + 8, &head.communicator, 8);
  std::memcpy(bytes.data() + 16, &head.offset, 8);
  std::memcpy(bytes.data() + 24, &head.length, 8);
  return bytes;
}

WireHead decode_wire_head(std::array<char, wire_head_bytes> const& bytes) {
  auto const kind = static_cast<std::uint8_t>(bytes[0]);
  auto const tag = static_cast<std::uint8_t>(bytes[1]);
  WireHead head;
  std::memcpy(kind == static_cast<std::uint8_t>(WireKind::want) ? &head.outline : &head.bytes, bytes.data() + 4, 4);
  std::memcpy(&head.communicator, bytes.data() + 8, 8);
  std::memcpy(&head.offset, bytes.data() + 16, 8);
  std::memcpy(&head.length, bytes.data() + 24, 8);
  head.kind = static_cast<WireKind>(kind);
  head.tag = static_cast<Tag>(tag);
  head.last = bytes[2] != 0;
  if (head.kind < WireKind::want || head.kind > WireKind::answer || tag >= tag_count) {
    throw BadFrame{fmt::format("a message of unknown kind {}, tag {}", kind, tag)};
  }
  std::uint32_t const most = head.kind == WireKind::data     ? most_piece_bytes
                             : head.kind == WireKind::answer ? most_whereabouts_bytes
                                                             : 0;
  if (head.bytes > most) {
    throw BadFrame{fmt::format("a message that announces {} bytes, where {} are allowed", head.bytes, most)};
  }
  constexpr auto longest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (head.kind == WireKind::want && (head.length > longest || head.offset > longest - head.length)) {
    throw BadFrame{fmt::format("a message that wants {} bytes at {}", head.length, head.offset)};
  }
  return head;
}

std::string encode(Handshake const& handshake) {
  return Body{}
      .text(wire_magic)
      .number(handshake.version)
      .text(handshake.token)
      .number(static_cast<std::uint64_t>(handshake.from))
      .number(static_cast<std::uint64_t>(handshake.to))
      .number(static_cast<std::uint64_t>(handshake.world))
      .take();
}

Handshake decode_handshake(std::string_view body) {
  BodyReader reader{body};
  if (reader.text(wire_magic.size()) != wire_magic) {
    throw BadFrame{"the handshake of another program"};
  }
  Handshake handshake;
  handshake.version = reader.number();
  if (handshake.version != tcp_version) {
    return handshake;
  }
  handshake.token = reader.text(most_token_bytes);
  handshake.from = static_cast<int>(reader.number(0, most_ranks));
  handshake.to = static_cast<int>(reader.number(0, most_ranks));
  handshake.world = static_cast<int>(reader.number(1, most_ranks));
  reader.end();
  return handshake;
}

}  // namespace zeroth::comm
