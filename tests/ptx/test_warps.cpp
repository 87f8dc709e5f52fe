// SPDX-License-Identifier: Apache-2.0
/// Branches, barriers, and operations of several lanes.
#include "small_kernel.hpp"

namespace zeroth::testing::ptx {
namespace {

using Catch::Contains;

/// Each lane loops as often as its number, and counts.
std::string const loop = R"(
    mov.u32 %r1, 0;
$around:
    setp.ge.u32 %p1, %r1, %r0;
    @%p1 bra $done;
    add.s32 %r1, %r1, 1;
    bra.uni $around;
$done:
)";
std::string const exchange = "shfl.sync.down.b32 %r1|%p2, %r1, 1, 31, -1;";

TEST_CASE("lanes that diverge at a branch reconverge") {
  auto const counted = results_of(loop);
  CHECK(counted[0] == 0);
  CHECK(counted[31] == 31);
  auto const shifted = results_of(loop + exchange);  // all are there
  CHECK(shifted[0] == 1);
  CHECK(shifted[31] == 31);
  CHECK(results_of("setp.lt.u32 %p1, %r0, 5; mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; @!%p1 add.s32 %r1, %r1, 2;") ==
        results_of("setp.lt.u32 %p1, %r0, 5; selp.b32 %r1, 2, 3, %p1;"));
}

TEST_CASE("warp-wide instructions that diverged lanes reach are faults") {
  std::string const half = "mov.u32 %r1, 0; setp.lt.u32 %p1, %r0, 16;";
  CHECK_THAT(fault_of(half + "@%p1 bra $skip;" + exchange + "$skip:" + exchange), Contains("lanes wait for others"));
  CHECK_THAT(fault_of(half + "@%p1 ret;" + exchange), Contains("lanes of the warp have ended"));
  CHECK_THAT(fault_of(half + "@%p1 ret; bar.sync 0;"), Contains("lanes of the warp have ended"));
  CHECK_THAT(fault_of(half + "@%p1 bra $skip; bar.sync 0; bra.uni $on; $skip: bar.sync 0; $on:"),
             Contains("lanes wait for others"));
  CHECK_THAT(fault_of("mov.u32 %r1, 0; shfl.sync.down.b32 %r1|%p2, %r1, 1, 31, 1;"), Contains("some lanes only"));
  CHECK_THROWS_WITH(small_kernel("@%p1 bar.sync 0;"), Contains("not known"));
}

TEST_CASE("a barrier that not all warps reach is a fault") {
  SmallLaunch const two_warps{.threads = 64};
  std::string const second = "mov.u32 %r1, 0; setp.lt.u32 %p1, %r0, 32;";
  CHECK(fault_of("mov.u32 %r1, 0; bar.sync 0; bar.sync 0;", two_warps).empty());
  CHECK_THAT(fault_of(second + "@%p1 bra $on; bar.sync 0; $on:", two_warps), Contains("others have ended"));
  CHECK_THAT(fault_of(second + "@%p1 bra $one; bar.sync 0; bra.uni $on; $one: bar.sync 0; $on:", two_warps),
             Contains("different barriers"));
}

TEST_CASE("shuffles read lanes of their segment only") {
  auto const down = results_of("shfl.sync.down.b32 %r1|%p1, %r0, 4, 31, -1; @!%p1 add.s32 %r1, %r1, 100;");
  CHECK(down[0] == 4);
  CHECK(down[27] == 31);
  CHECK(down[28] == 128);
  auto const butterfly = results_of("shfl.sync.bfly.b32 %r1|%p1, %r0, 3, 31, -1;");
  CHECK(butterfly[0] == 3);
  CHECK(butterfly[30] == 29);
  auto const segments = results_of("shfl.sync.down.b32 %r1|%p1, %r0, 1, 0x1807, -1;");  // of 8 lanes
  CHECK(segments[6] == 7);
  CHECK(segments[7] == 7);
}

TEST_CASE("blocks and warps run in the requested order") {
  // A thread stores one more than the value that the 32nd thread after it has stored so far.
  std::string const count = "ld.global.u32 %r1, [%rd1+128]; add.s32 %r1, %r1, 1;";
  auto const first_of = [&](unsigned threads, unsigned blocks, bool backwards) {
    return results_of(count, {.threads = threads,
                              .blocks = blocks,
                              .behaviour = {.backwards = backwards},
                              .out = std::vector<std::uint32_t>(128)})[5];
  };
  CHECK(first_of(32, 3, false) == 1);
  CHECK(first_of(32, 3, true) == 3);
  CHECK(first_of(96, 1, false) == 1);
  CHECK(first_of(96, 1, true) == 3);
  CHECK(results_of("mov.u32 %r2, %ntid.x; mov.u32 %r3, %nctaid.x; add.s32 %r1, %r2, %r3;",
                   {.threads = 64, .blocks = 2})[0] == 66);
}

}  // namespace
}  // namespace zeroth::testing::ptx
