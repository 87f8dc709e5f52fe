// SPDX-License-Identifier: Apache-2.0
/// The cost of memory accesses: passes over banks, and sectors.
#include "small_kernel.hpp"
#include "support/ptx/traffic.hpp"

namespace zeroth::testing::ptx {
namespace {

/// Lane i accesses `first + i * stride`.
Addresses strided(std::uint64_t first, std::uint64_t stride) {
  Addresses at{};
  for (std::size_t lane = 0; lane < at.size(); ++lane) {
    at[lane] = first + lane * stride;
  }
  return at;
}
Traffic shared(Addresses const& at, std::size_t bytes, Lanes lanes = all_lanes) {
  Traffic traffic;
  count_shared(traffic, at, lanes, bytes);
  CHECK(traffic.sectors + traffic.least_sectors == 0);
  return traffic;
}
Traffic global(Addresses const& at, std::size_t bytes, Lanes lanes = all_lanes) {
  Traffic traffic;
  count_global(traffic, at, lanes, bytes);
  CHECK(traffic.bank_passes + traffic.least_bank_passes == 0);
  return traffic;
}

}  // namespace

TEST_CASE("a bank serves one word per pass, and a word to all lanes") {
  struct Row {
    std::uint64_t stride;
    std::size_t bytes;
    std::uint64_t passes, least;
  };
  for (auto const& row : {Row{4, 4, 1, 1},     // dense
                          Row{8, 8, 2, 2},     //
                          Row{16, 16, 4, 4},   //
                          Row{2, 2, 1, 1},     // two lanes to a word
                          Row{0, 4, 1, 1},     // one word for all
                          Row{8, 4, 2, 1},     //
                          Row{128, 4, 32, 1},  // all in one bank
                          Row{132, 4, 1, 1},   // a gap after each row
                          Row{32, 16, 8, 4},   // halves of 32 bytes
                          Row{144, 16, 4, 4}}) {
    CAPTURE(row.stride, row.bytes);
    auto const got = shared(strided(0, row.stride), row.bytes);
    CHECK(got.bank_passes == row.passes);
    CHECK(got.least_bank_passes == row.least);
    CHECK(got.banks() == static_cast<double>(row.passes) / static_cast<double>(row.least));
  }
  CHECK(shared(strided(0, 128), 4, 0x7).bank_passes == 3);
  CHECK(shared(strided(0, 128), 4, 0x7).least_bank_passes == 1);
}

TEST_CASE("global memory is moved in sectors of 32 bytes") {
  struct Row {
    std::uint64_t first, stride;
    std::size_t bytes;
    std::uint64_t sectors, least;
  };
  for (auto const& row : {Row{0, 4, 4, 4, 4},         // dense
                          Row{4, 4, 4, 5, 4},         // not aligned
                          Row{0, 16, 16, 16, 16},     //
                          Row{0, 2, 2, 2, 2},         //
                          Row{0, 32, 4, 32, 4},       // a sector for each word
                          Row{64, 0, 4, 1, 1},        // one word for all
                          Row{0, 32, 16, 32, 16}}) {  // half of each
    CAPTURE(row.first, row.stride, row.bytes);
    auto const got = global(strided(row.first, row.stride), row.bytes);
    CHECK(got.sectors == row.sectors);
    CHECK(got.least_sectors == row.least);
    CHECK(got.global() == static_cast<double>(row.sectors) / static_cast<double>(row.least));
  }
  CHECK(global(strided(0, 4), 4, 0x1).sectors == 1);
}

TEST_CASE("a launch counts what its loads and stores take") {
  auto const conflicts = taken_by("shl.b32 %r2, %r0, 4; and.b32 %r2, %r2, 511; ld.shared.u32 %r1, [%r2];");
  CHECK(conflicts.bank_passes == 4);  // 32 words in 8 banks
  CHECK(conflicts.least_bank_passes == 1);
  CHECK(conflicts.sectors == 4);  // the result
  CHECK(conflicts.least_sectors == 4);
  auto const matrix =
      taken_by("shl.b32 %r2, %r0, 4; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r3, %r4, %r5}, [%r2];");
  CHECK(matrix.bank_passes == 4);
  CHECK(matrix.least_bank_passes == 4);
  auto const copy = taken_by(
      "shl.b32 %r2, %r0, 2; cp.async.ca.shared.global [%r2], [%rd1], 4, 4; cp.async.commit_group; "
      "cp.async.wait_group 0; ld.shared.u32 %r1, [%r2];");
  CHECK(copy.bank_passes == 2);
  CHECK(copy.sectors == 8);
  CHECK(Traffic{}.banks() == 0);
  auto sum = conflicts;
  sum += copy;
  CHECK(sum.bank_passes == 6);
  CHECK(sum.least_bank_passes == 3);
  CHECK(sum.sectors == 12);
}

}  // namespace zeroth::testing::ptx
