// SPDX-License-Identifier: Apache-2.0
/// Memory accesses, valid and invalid ones.
#include <numeric>

#include "small_kernel.hpp"

namespace zeroth::testing::ptx {
namespace {

using Catch::Contains;

/// %r2: address of the thread's word of `memory`; %r3: that of the next thread's word.
std::string const words = R"(
    mov.u32 %r2, memory;
    shl.b32 %r3, %r0, 2;
    add.s32 %r2, %r2, %r3;
    add.s32 %r3, %r2, 4;
)";

/// %r1 of the first thread, for which alone %p0 is true. No thread owns [%rd0+128].
std::uint32_t result_beside(std::string const& body) {
  return results_of("setp.eq.u32 %p0, %r0, 0;" + body, {.out = std::vector<std::uint32_t>(64)})[0];
}

TEST_CASE("loads and stores handle vectors, and extend narrow types") {
  CHECK(result_beside("@%p0 st.global.v2.u32 [%rd0+128], {5, 6}; ld.global.v2.u32 {%r2, %r3}, [%rd0+128]; "
                      "add.s32 %r1, %r2, %r3;") == 11);
  CHECK(result_of("st.global.u32 [%rd1], -2; ld.global.u8 %rs1, [%rd1]; cvt.u32.u16 %r1, %rs1;") == 254);
  CHECK(result_of("st.global.u32 [%rd1], -2; ld.global.s32 %rd2, [%rd1]; shr.u64 %rd2, %rd2, 32; "
                  "cvt.u32.u64 %r1, %rd2;") == 0xffffffffU);
  CHECK(result_of("mov.b16 %rs1, 0x1234; st.global.u32 [%rd1], 0; st.global.u8 [%rd1+1], %rs1; "
                  "ld.global.u32 %r1, [%rd1];") == 0x3400);
  CHECK(result_of("mov.u64 %rd2, out; ld.param.u32 %r1, [%rd2+4]; ld.param.u32 %r2, [out+4]; sub.s32 %r1, %r1, %r2;") ==
        0);
  CHECK(results_of(".local .align 8 .b8 depot[8]; mov.u64 %rd2, depot; st.local.u32 [%rd2+4], %r0; "
                   "ld.local.u32 %r1, [%rd2+4];")[9] == 9);
}

TEST_CASE("accesses beyond an allocation, or misaligned, are faults") {
  CHECK_THAT(fault_of("st.global.u32 [%rd0+128], 1;"), Contains("128 into 128 bytes"));
  CHECK_THAT(fault_of("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+120];"), Contains("not a multiple of 16"));
  CHECK_THAT(fault_of("ld.global.u32 %r1, [%rd0+-4];"), Contains("thread 0") && Contains("line 19"));
  CHECK_THAT(fault_of("ld.global.u32 %r1, [%rd1+4];"), Contains("thread 31: access to 4 bytes"));
  CHECK_THAT(fault_of("ld.shared.u32 %r1, [memory+512];"), Contains("shared address 512 of 512"));
  CHECK_THAT(fault_of("ld.shared.u64 %rd2, [memory+4];"), Contains("not aligned"));
  CHECK_THAT(fault_of("ld.param.u64 %rd2, [out+8];"), Contains("parameter address 8 of 8"));
  CHECK_THAT(fault_of("ld.local.u32 %r1, [0];"), Contains("local address 0 of 0"));
}

TEST_CASE("threads that share memory without a barrier are faults") {
  std::string const write = words + "st.shared.u32 [%r2], %r0;", read = "ld.shared.u32 %r1, [%r3];";
  SmallLaunch const two_warps{.threads = 64};
  CHECK_THAT(fault_of(write + read, two_warps), Contains("race with thread 1, which wrote at shared address 4"));
  auto const values = results_of(write + "bar.sync 0;" + read, two_warps);
  CHECK(values[40] == 41);
  CHECK(values[63] == 0xffffffffU);  // NaN, since it was not written
  CHECK_THAT(fault_of(write + "bar.sync 0;" + read + "st.shared.u32 [%r2], 0;", two_warps), Contains("reading"));
  CHECK_THAT(fault_of(words + "ld.shared.u32 %r1, [memory]; st.shared.u32 [memory], 0;"),
             Contains("race with several threads reading"));
  CHECK_THAT(fault_of(words + "st.shared.u32 [memory], 0;"), Contains("race with thread 0"));
  CHECK(fault_of(write + "ld.shared.u32 %r1, [%r2];", two_warps).empty());  // its own
  // Two accesses of 16 bits to one word do not conflict.
  CHECK(fault_of("shl.b32 %r2, %r0, 1; mov.b16 %rs1, 3; st.shared.u16 [%r2], %rs1;").empty());
}

TEST_CASE("two threads that write the same bytes of global memory are faults, whatever they write") {
  CHECK_THAT(fault_of("st.global.u32 [%rd0], 7;"), Contains("was also written by thread 0 of block 0"));
  std::string const own_block = "setp.eq.u32 %p1, %r0, 3; @%p1 st.global.u32 [%rd0+512], 7;";
  SmallLaunch const one_block{.threads = 64, .out = std::vector<std::uint32_t>(256)};
  SmallLaunch const two_blocks{.threads = 64, .blocks = 2, .out = std::vector<std::uint32_t>(256)};
  CHECK(fault_of(own_block, one_block).empty());
  CHECK_THAT(fault_of(own_block, two_blocks), Contains("was also written by thread 3 of block 0"));
  // A barrier orders only the threads of one block.
  std::string const then_another = "bar.sync 0; setp.eq.u32 %p2, %r0, 40; @%p2 st.global.u32 [%rd0+512], 8;";
  CHECK(fault_of(own_block + then_another, one_block).empty());
  CHECK_THAT(fault_of(own_block + then_another, two_blocks), Contains("was also written by thread 40 of block 0"));
  // Each thread writes half of one word.
  CHECK(
      fault_of("mul.wide.u32 %rd2, %r0, 2; add.s64 %rd2, %rd0, %rd2; mov.b16 %rs1, 3; st.global.u16 [%rd2+512], %rs1;",
               one_block)
          .empty());
}

TEST_CASE("data of cp.async is present once it was waited for") {
  SmallLaunch launch{.threads = 32};
  std::iota(launch.out.begin(), launch.out.end(), 100U);
  std::string const copy = words + "cp.async.ca.shared.global [%r2], [%rd1], 4, 4;", commit = "cp.async.commit_group;",
                    wait = "cp.async.wait_group 0;", read = "ld.shared.u32 %r1, [%r2];";
  CHECK(results_of(copy + commit + wait + read, launch)[7] == 107);
  CHECK_THAT(fault_of(copy + commit + read, launch), Contains("has not brought yet"));
  CHECK_THAT(fault_of(copy + wait + read, launch), Contains("has not brought yet"));
  CHECK_THAT(fault_of(copy, launch), Contains("not committed"));
  CHECK_THAT(fault_of(copy + commit + wait + "ld.shared.u32 %r1, [%r3];", launch), Contains("race with thread 1"));
  CHECK_THAT(fault_of(copy + commit + "st.shared.u32 [%r2], 1;", launch), Contains("has not brought yet"));
  CHECK(results_of(words + "cp.async.ca.shared.global [%r2], [%rd1], 4, 2;" + commit + wait + read, launch)[7] == 107);
  CHECK(results_of(words + "cp.async.ca.shared.global [%r2], [%rd1], 4, 0;" + commit + wait + read, launch)[7] == 0);

  std::string const second = "add.s32 %r4, %r2, 128; cp.async.ca.shared.global [%r4], [%rd1], 4, 4;" + commit;
  std::string const both = copy + commit + second + "cp.async.wait_group 1;";
  CHECK(results_of(both + read, launch)[3] == 103);
  CHECK_THAT(fault_of(both + "ld.shared.u32 %r1, [%r4];", launch), Contains("has not brought yet"));
}

}  // namespace
}  // namespace zeroth::testing::ptx
