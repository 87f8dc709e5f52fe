// SPDX-License-Identifier: Apache-2.0
/// The header, the macros in it and the package say the same version.
#include <fmt/format.h>

#include "support/catch.hpp"
#include "zeroth/version.hpp"

namespace zeroth::testing {
namespace {

TEST_CASE("The version is the package's, as numbers and as text") {
  CHECK(version == ZEROTH_PACKAGE_VERSION);
  CHECK(version == fmt::format("{}.{}.{}", ZEROTH_VERSION_MAJOR, ZEROTH_VERSION_MINOR, ZEROTH_VERSION_PATCH));
}

}  // namespace
}  // namespace zeroth::testing
