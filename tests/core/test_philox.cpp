// SPDX-License-Identifier: Apache-2.0
#include "zeroth/core/philox.hpp"

#include "support/catch.hpp"

namespace zeroth {

TEST_CASE("Philox 4x32-10 gives its published values") {
  // From kat_vectors of Random123.
  CHECK(philox({0, 0}, {0, 0, 0, 0}) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
        PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

}  // namespace zeroth
