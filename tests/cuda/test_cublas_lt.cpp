// SPDX-License-Identifier: Apache-2.0
/// Finding and loading cuBLASLt, and the errors if that fails.
#include <string>
#include <vector>

#include "device/cublas_lt_library.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

using Catch::Contains;

std::string why_not(std::vector<std::string> const& files) {
  return testing::thrown<SystemError>([&] { static_cast<void>(load_cublas_lt(files)); });
}

}  // namespace

TEST_CASE("the error about a missing cuBLASLt has the loader's reason, and says what to do") {
  auto const why = why_not({"libcublasLt_that_nobody_has.so.13", "/nowhere/libcublasLt.so"});
  CHECK_THAT(why, Contains("libcublasLt_that_nobody_has.so.13: cannot open shared object file: No such file"));
  CHECK_THAT(why, Contains("/nowhere/libcublasLt.so: cannot open shared object file: No such file"));
  CHECK_THAT(why, Contains("Muon needs cuBLASLt on GPUs") && Contains("Install cuBLAS of CUDA ") &&
                      Contains("or name its folder in LD_LIBRARY_PATH"));
}

TEST_CASE("a library that is not cuBLASLt, or lacks functions, is skipped with a reason") {
  auto const why = why_not({"libm.so.6", CUBLAS_LT_BARE});
  CHECK_THAT(why, Contains("; libm.so.6: it has no cublasLtGetStatusName; "));
  CHECK_THAT(why, Contains(std::string{CUBLAS_LT_BARE} + ": it has no cublasLtCreate"));
}

TEST_CASE("the first usable cuBLASLt is loaded, with all functions") {
  auto const lt = load_cublas_lt({"/nowhere/libcublasLt.so", CUBLAS_LT_BARE, CUBLAS_LT_WHOLE});
#define IS_THERE(name, function) CHECK(lt.name != nullptr);
  ZEROTH_CUBLAS_LT_FUNCTIONS(IS_THERE)
#undef IS_THERE
  CHECK(lt.create(nullptr) == CUBLAS_STATUS_SUCCESS);  // the answer of the library made for this test
}

#ifdef CUBLAS_LT_REAL
TEST_CASE("the installed cuBLASLt is loaded and can be called") {
  auto const lt = load_cublas_lt({CUBLAS_LT_REAL});
  CHECK(lt.status_name(CUBLAS_STATUS_NOT_SUPPORTED) == std::string{"CUBLAS_STATUS_NOT_SUPPORTED"});
  cublasLtMatrixLayout_t layout = nullptr;
  CHECK(lt.create_layout(&layout, CUDA_R_16BF, 7, 61, 7) == CUBLAS_STATUS_SUCCESS);
  CHECK(lt.destroy_layout(layout) == CUBLAS_STATUS_SUCCESS);
}
#endif

}  // namespace zeroth::device
