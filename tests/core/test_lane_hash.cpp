// SPDX-License-Identifier: Apache-2.0
/// The hash of large memory depends on every bit, wherever it is.
#include <set>
#include <vector>

#include "core/lane_hash.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

std::uint64_t hash_of(std::span<std::byte const> bytes) {
  LaneHash hash;
  hash.add(bytes);
  return hash.value();
}

}  // namespace

TEST_CASE("one different bit, or two different sign bits, change the hash at every position") {
  std::vector<std::byte> bytes(512, std::byte{0x5a});
  std::set<std::uint64_t> seen{hash_of(bytes)};
  std::size_t inputs = 1;
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[byte] ^= std::byte{1} << bit;
      seen.insert(hash_of(bytes));
      ++inputs;
      bytes[byte] ^= std::byte{1} << bit;
    }
  }
  for (std::size_t first = 3; first < bytes.size(); first += 4) {
    for (auto second = first + 4; second < bytes.size(); second += 4) {
      bytes[first] ^= std::byte{0x80};
      bytes[second] ^= std::byte{0x80};
      seen.insert(hash_of(bytes));
      ++inputs;
      bytes[first] ^= std::byte{0x80};
      bytes[second] ^= std::byte{0x80};
    }
  }
  CHECK(seen.size() == inputs);
}

TEST_CASE("different lengths have different hashes, and pieces of whole blocks hash as one") {
  std::vector<std::byte> const zeros(1024);
  std::span const all{zeros};
  std::set<std::uint64_t> seen;
  for (std::size_t length = 0; length <= 200; ++length) {
    seen.insert(hash_of(all.first(length)));
  }
  CHECK(seen.size() == 201);
  LaneHash pieces;
  pieces.add(all.first(64));
  pieces.add(all.subspan(64, 640));
  pieces.add(all.subspan(704));
  CHECK(pieces.value() == hash_of(all));
}

}  // namespace zeroth::testing
