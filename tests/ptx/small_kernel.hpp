// SPDX-License-Identifier: Apache-2.0
/// Kernels of a few lines of PTX, for tests of what runs them.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/ptx/decode.hpp"
#include "support/ptx/launch.hpp"

namespace zeroth::testing::ptx {

/// A kernel around `body`: %r0 is the thread, %rd0 the address of the results, %rd1 the address of this thread's
/// result, which is the final %r1. `memory` is shared memory.
[[nodiscard]] inline Kernel small_kernel(std::string const& body) {
  return decode(KernelText{R"(.entry small(
    .param .u64 out
    )
    {
    .reg .pred %p<8>;
    .reg .b16 %rs<16>;
    .reg .b32 %r<32>;
    .reg .b32 %f<32>;
    .reg .b64 %rd<16>;
    .reg .b64 %fd<16>;
    .shared .align 16 .b8 memory[512];
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r31, %ctaid.x;
    mov.u32 %r30, %ntid.x;
    mad.lo.s32 %r31, %r31, %r30, %r0;
    mul.wide.u32 %rd1, %r31, 4;
    add.s64 %rd1, %rd0, %rd1;
    )" + body + R"(
    st.global.u32 [%rd1], %r1;
    ret;
    })",
                           1});
}

struct SmallLaunch {
  unsigned threads = 32, blocks = 1;
  Behaviour behaviour{};
  std::vector<std::uint32_t> out =
      std::vector<std::uint32_t>(std::size_t{threads} * blocks);  ///< The initial contents.
};

/// Leaves the results in `memory`.
inline Traffic run_small(std::string const& body, SmallLaunch const& launch, Memory const& memory) {
  auto const arguments = std::bit_cast<std::array<std::byte, 8>>(memory.begin);
  return run(
      small_kernel(body),
      {launch.blocks, launch.threads, {arguments.begin(), arguments.end()}, launch.behaviour, [=](std::uintptr_t) {
         return memory;
       }});
}
[[nodiscard]] inline std::vector<std::uint32_t> results_of(std::string const& body, SmallLaunch launch = {}) {
  static_cast<void>(
      run_small(body, launch, {reinterpret_cast<std::uintptr_t>(launch.out.data()), launch.out.size() * 4}));
  return launch.out;
}
/// The cost of a warp's memory accesses. The results are at a multiple of 32 bytes.
[[nodiscard]] inline Traffic taken_by(std::string const& body) {
  alignas(32) std::array<std::uint32_t, warp_lanes> out{};
  return run_small(body, {.behaviour = {.counts_traffic = true}},
                   {reinterpret_cast<std::uintptr_t>(out.data()), sizeof(out)});
}

/// %r1 of the first thread.
[[nodiscard]] inline std::uint32_t result_of(std::string const& body) { return results_of(body)[0]; }

/// The message of its Fault; empty if there is none.
[[nodiscard]] inline std::string fault_of(std::string const& body, SmallLaunch const& launch = {}) {
  try {
    static_cast<void>(results_of(body, launch));
    return "";
  } catch (Fault const& fault) {
    return fault.what();
  }
}

}  // namespace zeroth::testing::ptx
