// SPDX-License-Identifier: Apache-2.0
/// How cuDNN is found and loaded, and what is said where it is not.
#include <string>
#include <vector>

#include "gpu/cudnn_library.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {
namespace {

using Catch::Contains;

std::string why_not(std::vector<std::string> const& files) {
  return zeroth::testing::thrown<zeroth::SystemError>([&] { return load_cudnn(files); });
}

}  // namespace

TEST_CASE("the error about a missing libcudnn has the loader's reason, and says what to do") {
  auto const why = why_not({"libcudnn_that_nobody_has.so.9", "/nowhere/libcudnn.so"});
  CHECK_THAT(why, Contains("--attention cudnn: no usable cuDNN was found; libcudnn_that_nobody_has.so.9: cannot open "
                           "shared object file: No such file"));
  CHECK_THAT(why, Contains("/nowhere/libcudnn.so: cannot open shared object file: No such file"));
  CHECK_THAT(why, Contains("Install cuDNN " + describe_cudnn_version(least_cudnn) + " or newer (pip install "));
  CHECK_THAT(why, Contains("or name its folder in LD_LIBRARY_PATH; --attention own needs none"));
}

TEST_CASE("a library that is not cuDNN, lacks functions or is too old is skipped with a reason") {
  auto const why = why_not({"libm.so.6", CUDNN_BARE, CUDNN_OLD});
  CHECK_THAT(why, Contains("; libm.so.6: it has no cudnnGetVersion; "));
  CHECK_THAT(why, Contains(std::string{CUDNN_BARE} + ": it has no cudnnCreate; "));
  CHECK_THAT(why, Contains(std::string{CUDNN_OLD} + ": libcudnn is version 9.10.2, but " +
                           describe_cudnn_version(least_cudnn) + " is the oldest supported (built with 9."));
}

TEST_CASE("the first usable cuDNN is loaded, with all functions") {
  auto const loaded = load_cudnn({"/nowhere/libcudnn.so", CUDNN_OLD, CUDNN_WHOLE});
  CHECK(loaded.library != nullptr);
  CHECK(loaded.version == 99999);
  CHECK(loaded.error_string != nullptr);
  CHECK(loaded.create(nullptr) == CUDNN_STATUS_SUCCESS);  // as the library made for this answers
  CHECK(loaded.set_stream(nullptr, nullptr) == CUDNN_STATUS_SUCCESS);
  CHECK(loaded.destroy(nullptr) == CUDNN_STATUS_SUCCESS);
}

}  // namespace gpt::gpu
