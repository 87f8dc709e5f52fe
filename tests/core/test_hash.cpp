// SPDX-License-Identifier: Apache-2.0
#include "core/hash.hpp"

#include <set>

#include "support/catch.hpp"

namespace zeroth {

TEST_CASE("FNV-1a gives its published values") {
  CHECK(Fnv1a{}.value() == 0xcbf29ce484222325U);
  CHECK(Fnv1a{}.characters("a").value() == 0xaf63dc4c8601ec8cU);
  CHECK(Fnv1a{}.characters("foobar").value() == 0x85944171f73967e8U);
  CHECK(Fnv1a32{}.value() == 0x811c9dc5U);
  CHECK(Fnv1a32{}.characters("a").value() == 0xe40c292cU);
  CHECK(Fnv1a32{}.characters("foobar").value() == 0xbf9cf968U);
}

TEST_CASE("a number is hashed as its eight bytes, the lowest first") {
  Fnv1a32 of_number;
  of_number.add(std::uint64_t{0x8877665544332211U});
  CHECK(of_number.value() == Fnv1a32{}.characters("\x11\x22\x33\x44\x55\x66\x77\x88").value());
}

TEST_CASE("the key of a parameter's initial values never changes") {
  CHECK(spread(Fnv1a{42 * golden_ratio}.characters("head.weight").value()) == 0x081cabcb0d4a3fcdU);
}

TEST_CASE("pairs of small numbers have different hashes, in either order") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 100; ++a) {
    for (std::uint64_t b = 0; b < 100; ++b) {
      seen.insert(mix(a, b));
    }
  }
  CHECK(seen.size() == 100 * 100);
}

}  // namespace zeroth
