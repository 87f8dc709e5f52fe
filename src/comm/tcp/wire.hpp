// SPDX-License-Identifier: Apache-2.0
/// The TCP messages between ranks as bytes: a handshake in the store's frames, then heads of 32 bytes, each with its
/// body. Numbers are little-endian.
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
constexpr std::uint32_t most_piece_bytes = 1 << 18;  ///< Maximum piece of a block; pieces of several blocks alternate.
constexpr std::uint32_t most_whereabouts_bytes = 1500;

enum class WireKind : std::uint8_t {
  want = 1,  ///< Requests `length` bytes from `offset` on of the receiver's next data under the channel; `last` then
             ///< releases it.
  data,      ///< The next `bytes` that the receiver has requested under the channel follow.
  left,      ///< The sender has ended communicator `communicator` after transaction `offset`.
  question,  ///< Status query number `offset` about `communicator`.
  answer,    ///< Answer to query `offset`: `length` is the last transaction begun there; `bytes` of text follow.
};

struct WireHead {
  WireKind kind = WireKind::want;
  Tag tag = Tag::blocks;
  bool last = false;
  std::uint32_t bytes = 0;    ///< Size of the body.
  std::uint32_t outline = 0;  ///< For want, instead of `bytes`: see Transfers::expect().
  std::uint64_t communicator = 0;
  std::uint64_t offset = 0, length = 0;
};
[[nodiscard]] std::array<char, wire_head_bytes> encode(WireHead const& head) noexcept;
/// Throws BadFrame if the head is invalid or announces too many bytes.
[[nodiscard]] WireHead decode_wire_head(std::array<char, wire_head_bytes> const& bytes);

/// How rank `from` introduces itself to rank `to`, and how `to` answers.
struct Handshake {
  std::uint64_t version = tcp_version;
  std::string token;
  int from = 0, to = 0, world = 1;
};
constexpr std::size_t most_handshake_bytes = 1024;
[[nodiscard]] std::string encode(Handshake const& handshake);
/// Throws BadFrame. With another version, no other member is set.
[[nodiscard]] Handshake decode_handshake(std::string_view body);

}  // namespace zeroth::comm
