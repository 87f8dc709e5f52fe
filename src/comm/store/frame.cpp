// SPDX-License-Identifier: Apache-2.0
#include "comm/store/frame.hpp"

#include <fmt/format.h>

namespace zeroth::comm {
namespace {

constexpr std::string_view magic = "zeroth store";

template <std::size_t N>
void write(std::uint64_t value, char* to) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    to[i] = static_cast<char>(value >> (8 * i));
  }
}

template <std::size_t N>
std::uint64_t read(char const* from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < N; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  }
  return value;
}

}  // namespace

std::array<char, head_bytes> encode(Head const& head) noexcept {
  std::array<char, head_bytes> bytes{};
  write<4>(head.body_bytes, bytes.data());
  write<1>(head.kind, bytes.data() + 4);
  write<8>(head.tag, bytes.data() + 5);
  return bytes;
}

Head decode_head(std::string_view bytes) noexcept {
  return {static_cast<std::uint32_t>(read<4>(bytes.data())), static_cast<std::uint8_t>(read<1>(bytes.data() + 4)),
          read<8>(bytes.data() + 5)};
}

Body& Body::number(std::uint64_t value) {
  std::array<char, 8> bytes{};
  write<8>(value, bytes.data());
  bytes_.append(bytes.data(), bytes.size());
  return *this;
}

Body& Body::text(std::string_view value) {
  std::array<char, 4> bytes{};
  write<4>(value.size(), bytes.data());
  bytes_.append(bytes.data(), bytes.size()).append(value);
  return *this;
}

std::string_view BodyReader::take(std::size_t bytes) {
  if (bytes > rest_.size()) {
    throw BadFrame{fmt::format("a message that ends {} bytes too early", bytes - rest_.size())};
  }
  auto const taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t BodyReader::number() { return read<8>(take(8).data()); }

std::uint64_t BodyReader::number(std::uint64_t least, std::uint64_t most) {
  auto const value = number();
  if (value < least || value > most) {
    throw BadFrame{fmt::format("a message that says {} where {} to {} is allowed", value, least, most)};
  }
  return value;
}

std::string BodyReader::text(std::size_t most_bytes) {
  auto const bytes = read<4>(take(4).data());
  if (bytes > most_bytes) {
    throw BadFrame{fmt::format("a message that announces a text of {} bytes, where {} are allowed", bytes, most_bytes)};
  }
  return std::string{take(bytes)};
}

void BodyReader::end() const {
  if (!rest_.empty()) {
    throw BadFrame{fmt::format("a message that is {} bytes too long", rest_.size())};
  }
}

std::string encode(Hello const& hello) {
  return Body{}
      .text(magic)
      .number(hello.version)
      .text(hello.token)
      .number(static_cast<std::uint64_t>(hello.rank))
      .number(static_cast<std::uint64_t>(hello.world))
      .text(hello.host)
      .take();
}

Hello decode_hello(std::string_view body) {
  BodyReader reader{body};
  if (reader.text(magic.size()) != magic) {
    throw BadFrame{"the handshake of another program"};
  }
  Hello hello;
  hello.version = reader.number();
  if (hello.version != protocol_version) {
    return hello;
  }
  hello.token = reader.text(most_token_bytes);
  hello.rank = static_cast<int>(reader.number(0, most_ranks));
  hello.world = static_cast<int>(reader.number(1, most_ranks));
  hello.host = reader.text(most_name_bytes);
  reader.end();
  return hello;
}

}  // namespace zeroth::comm
