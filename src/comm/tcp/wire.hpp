// SPDX-License-Identifier: Apache-2.0
/// What ranks send each other over TCP, as bytes: a handshake in the store's frames, then heads of 32 bytes and what
/// belongs to them. Numbers are little-endian.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "comm/tcp/channel.hpp"

namespace zeroth::comm {

constexpr std::uint64_t tcp_version = 2;
constexpr std::size_t wire_head_bytes = 32;
constexpr std::uint32_t most_piece_bytes = 1 << 18;  ///< Of a block at a time, so that others are sent beside it.
constexpr std::uint32_t most_whereabouts_bytes = 1500;

enum class WireKind : std::uint8_t {
  want = 1,  ///< `length` bytes from `offset` on of what you show me next under the channel; `last`: then let it go.
  data,      ///< The next `bytes` of what you want of me under the channel follow.
  left,      ///< I have ended communicator `communicator` after transaction `offset`.
  question,  ///< Number `offset`: where are you, as for `communicator`?
  answer,    ///< To question `offset`: transaction `length` is the last begun there; `bytes` of words follow.
};

struct WireHead {
  WireKind kind = WireKind::want;
  Tag tag = Tag::blocks;
  bool last = false;
  std::uint32_t bytes = 0;    ///< That follow.
  std::uint32_t outline = 0;  ///< Of want, in the place of `bytes`: see Transfers::expect().
  std::uint64_t communicator = 0;
  std::uint64_t offset = 0, length = 0;
};
[[nodiscard]] std::array<char, wire_head_bytes> encode(WireHead const& head) noexcept;
/// Throws BadFrame for what is no head, or announces too much.
[[nodiscard]] WireHead decode_wire_head(std::array<char, wire_head_bytes> const& bytes);

/// How rank `from` introduces itself to rank `to`, and how that one answers.
struct Handshake {
  std::uint64_t version = tcp_version;
  std::string token;
  int from = 0, to = 0, world = 1;
};
constexpr std::size_t most_handshake_bytes = 1024;
[[nodiscard]] std::string encode(Handshake const& handshake);
/// Throws BadFrame. Of another version nothing else is known.
[[nodiscard]] Handshake decode_handshake(std::string_view body);

}  // namespace zeroth::comm
