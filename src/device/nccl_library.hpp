// SPDX-License-Identifier: Apache-2.0
/// The NCCL of this process, loaded on first use: programs start without it.
#pragma once
#include <nccl.h>

#include <string>
#include <vector>

#include "device/nccl_functions.hpp"

namespace zeroth::device {

/// The first version with windows, communicator names and CTA policies, which this code uses.
inline constexpr int oldest_nccl = 22800;
static_assert(NCCL_VERSION_CODE >= oldest_nccl,
              "Zeroth needs NCCL 2.28.0 or newer, and this nccl.h is older: set NCCL_INCLUDE_DIR to the folder of a "
              "newer one, or configure without NCCL");

/// NCCL's functions.
struct Nccl {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name stands without
#define ZEROTH_NCCL_MEMBER(name, function) decltype(&::function) name = nullptr;
  ZEROTH_NCCL_FUNCTIONS(ZEROTH_NCCL_MEMBER)
#undef ZEROTH_NCCL_MEMBER
  /// Whether it was in this process before: linked, or loaded by another library. It may or may not have been used.
  bool was_there = false;
  int version = 0;  ///< As ncclGetVersion() returns it.
};

/// libnccl.so.2 as the system finds it, or else the file that was found at build time. The first call loads it. Any
/// thread may call; once a call has returned, no call throws. Throws SystemError as load_nccl() does.
[[nodiscard]] Nccl const& nccl();

/// Loads the first of `files` that can be loaded and is new enough; it is never unloaded. Throws SystemError with the
/// reason for each file that was not taken.
[[nodiscard]] Nccl load_nccl(std::vector<std::string> const& files);

/// "2.28.9"
[[nodiscard]] std::string describe_nccl_version(int version);
/// "libnccl is version 2.27.7, and 2.28.0 is the oldest that works (built with 2.29.1)"; empty if `version` suits.
[[nodiscard]] std::string nccl_version_problem(int version);

}  // namespace zeroth::device
