// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/fat_binary.hpp"

#include <cstdint>
#include <cstring>
#include <regex>
#include <stdexcept>

namespace zeroth::testing::ptx {
namespace {

struct Wrapper {
  std::uint32_t magic, version;
  char const* data;
  void const* unused;
};
constexpr std::uint32_t wrapper_magic = 0x466243b1;

struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // without the header
};
constexpr std::uint32_t header_magic = 0xba55ed50;

/// The header of a module, as far as it is needed here.
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
};
constexpr std::uint16_t ptx_kind = 1;

template <class T>
T read(void const* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace

std::string module_of(void const* wrapper, std::string const& architecture) {
  auto const outer = read<Wrapper>(wrapper);
  if (outer.magic != wrapper_magic) {
    throw std::runtime_error{"PTX: what was registered is no fat binary"};
  }
  auto const header = read<Header>(outer.data);
  if (header.magic != header_magic) {
    throw std::runtime_error{"PTX: what was registered is no fat binary"};
  }
  std::regex const target{R"(\.target\s+(\w+))"};
  std::string others;
  char const* const end = outer.data + header.header_bytes + header.bytes;
  for (char const* at = outer.data + header.header_bytes; at < end;) {
    auto const entry = read<Entry>(at);
    if (entry.kind == ptx_kind) {
      std::string text(at + entry.header_bytes, entry.bytes);
      text.resize(std::strlen(text.c_str()));  // padded with zeros
      std::smatch found;
      if (!std::regex_search(text, found, target)) {
        throw std::runtime_error{"PTX: a module is compressed: compile with -Xfatbin -compress=false"};
      }
      if (found[1] == architecture) {
        return text;
      }
      others += " " + found[1].str();
    }
    at += entry.header_bytes + entry.bytes;
  }
  throw std::runtime_error{"PTX: a fat binary without " + architecture + ", but with:" + others};
}

}  // namespace zeroth::testing::ptx
