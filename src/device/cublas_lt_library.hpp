// SPDX-License-Identifier: Apache-2.0
/// The cuBLASLt of this process, loaded on first use: programs start without it, and only Muon needs it.
#pragma once
#include <cublasLt.h>

#include <string>
#include <vector>

#include "device/cublas_lt_functions.hpp"

namespace zeroth::device {

/// cuBLASLt's functions.
struct CublasLt {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name stands without
#define ZEROTH_CUBLAS_LT_MEMBER(name, function) decltype(&::function) name = nullptr;
  ZEROTH_CUBLAS_LT_FUNCTIONS(ZEROTH_CUBLAS_LT_MEMBER)
#undef ZEROTH_CUBLAS_LT_MEMBER
};

/// libcublasLt.so.13 or .12 as the system finds it, first that of cublasLt.h at build time. The first call loads it.
/// Any thread may call; once a call has returned, no call throws. Throws SystemError as load_cublas_lt() does.
[[nodiscard]] CublasLt const& cublas_lt();

/// Loads the first of `files`, at least one, that can be loaded and has all functions; it is never unloaded. Throws
/// SystemError with the reason for each file that was not taken.
[[nodiscard]] CublasLt load_cublas_lt(std::vector<std::string> const& files);

}  // namespace zeroth::device
