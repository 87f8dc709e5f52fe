// SPDX-License-Identifier: Apache-2.0
/// Finding and loading NCCL, and the errors if that fails.
#include <string>
#include <vector>

#include "device/nccl_library.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

using Catch::Contains;

std::string why_not(std::vector<std::string> const& files) {
  return testing::thrown<SystemError>([&] { return load_nccl(files); });
}

}  // namespace

TEST_CASE("the error about a missing libnccl has the loader's reason, and says what to do") {
  auto const why = why_not({"libnccl_that_nobody_has.so.2", "/nowhere/libnccl.so"});
  CHECK_THAT(why, Contains("libnccl_that_nobody_has.so.2: cannot open shared object file: No such file"));
  CHECK_THAT(why, Contains("/nowhere/libnccl.so: cannot open shared object file: No such file"));
  CHECK_THAT(why, Contains("Install NCCL 2.28.0 or newer, or name its folder in LD_LIBRARY_PATH"));
}

TEST_CASE("a library that is not NCCL, lacks functions or is too old is skipped with a reason") {
  auto const why = why_not({"libm.so.6", NCCL_BARE, NCCL_OLD});
  CHECK_THAT(why, Contains("; libm.so.6: it has no ncclGetVersion; "));
  CHECK_THAT(why, Contains(std::string{NCCL_BARE} + ": it has no ncclGetUniqueId; "));
  CHECK_THAT(why, Contains(std::string{NCCL_OLD} + ": libnccl is version 2.27.7, but 2.28.0 is the oldest supported"));
}

TEST_CASE("the first usable file is loaded, with all functions") {
  auto const nccl = load_nccl({"/nowhere/libnccl.so", NCCL_OLD, NCCL_WHOLE});
#define IS_THERE(name, function) CHECK(nccl.name != nullptr);
  ZEROTH_NCCL_FUNCTIONS(IS_THERE)
#undef IS_THERE
  CHECK(nccl.group_start() == ncclSuccess);  // the answer of the library made for this test
  CHECK(nccl.version == 99999);
  CHECK_FALSE(nccl.was_there);
  CHECK(load_nccl({NCCL_WHOLE}).was_there);  // since then
}

}  // namespace zeroth::device
