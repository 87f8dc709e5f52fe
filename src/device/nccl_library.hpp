// SPDX-License-Identifier: Apache-2.0
/// The NCCL that this process runs on, loaded when it is first needed: programs start where there is none.
#pragma once
#include <nccl.h>

#include <string>
#include <vector>

#include "device/nccl_functions.hpp"

namespace zeroth::device {

/// Of which this code uses windows, communicator names and CTA policies.
inline constexpr int oldest_nccl = 22800;
static_assert(NCCL_VERSION_CODE >= oldest_nccl,
              "Zeroth needs NCCL 2.28.0 or newer, and this nccl.h is older: set NCCL_INCLUDE_DIR to the folder of a "
              "newer one, or configure without NCCL");

/// Its functions.
struct Nccl {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name stands without
#define ZEROTH_NCCL_MEMBER(name, function) decltype(&::function) name = nullptr;
  ZEROTH_NCCL_FUNCTIONS(ZEROTH_NCCL_MEMBER)
#undef ZEROTH_NCCL_MEMBER
  /// It was in this process before: linked, or loaded by another library. Whether it was used nobody tells.
  bool was_there = false;
  int version = 0;  ///< As ncclGetVersion() has it.
};

/// libnccl.so.2 as the system finds it, or else the file that was found when this was built. The first call loads it,
/// and any thread may call; after one that returned none throws. SystemError as load_nccl().
[[nodiscard]] Nccl const& nccl();

/// The first of `files` that can be loaded and is not older than the code needs; for good. Throws SystemError that says
/// of each why it was not taken.
[[nodiscard]] Nccl load_nccl(std::vector<std::string> const& files);

/// "2.28.9"
[[nodiscard]] std::string describe_nccl_version(int version);
/// "libnccl is version 2.27.7, and 2.28.0 is the oldest that works (built with 2.29.1)"; empty if `version` will do.
[[nodiscard]] std::string nccl_version_problem(int version);

}  // namespace zeroth::device
