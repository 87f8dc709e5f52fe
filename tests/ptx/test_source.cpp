// SPDX-License-Identifier: Apache-2.0
/// Parsing of PTX, and the text that is rejected.
#include "small_kernel.hpp"
#include "support/ptx/source.hpp"

namespace zeroth::testing::ptx {
namespace {

using Catch::Contains;

TEST_CASE("a module is parsed into kernels, and a kernel into statements") {
  std::string const module = R"(.version 9.0
.visible .entry first(
	.param .align 8 .b8 first_0[24],
	.param .u32 first_1
)
.maxntid 256, 1, 1
{
	.reg .b32 	%r<4>;  // a comment; with a semicolon

$L_1:
	@!%p1 bra 	$L_1;
	{ .reg .b16 tmp; mov.b32 {tmp, %rs1}, %r1; }
	shfl.sync.down.b32 	%r1|%p1, %r2,
		16, 31, -1;
	ret;
}
.visible .entry second(
)
{
	ret;
}
)";
  auto const kernels = kernels_of(module);
  REQUIRE(kernels.size() == 2);
  CHECK(take_apart(kernels.at("second")).statements.size() == 1);
  auto const first = take_apart(kernels.at("first"));
  CHECK(first.name == "first");
  CHECK(first.max_threads == 256);
  REQUIRE(first.parameters.size() == 2);
  CHECK(first.parameters[0].operands == std::vector<std::string>{".align", "8", ".b8", "first_0[24]"});
  CHECK(first.labels.at("$L_1") == 1);
  auto const& lines = first.statements;
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].opcode == ".reg");
  CHECK(lines[1].line == 11);
  CHECK(lines[1].guard == "%p1");
  CHECK(lines[1].unless);
  CHECK(lines[1].text() == "@!%p1 bra $L_1");
  CHECK(lines[2].opcode == ".reg");
  CHECK(lines[3].operands == std::vector<std::string>{"{tmp, %rs1}", "%r1"});
  CHECK(lines[4].line == 13);
  CHECK(lines[4].operands == std::vector<std::string>{"%r1", "%p1", "%r2", "16", "31", "-1"});
}

TEST_CASE("unknown PTX is rejected with its line") {
  CHECK_THROWS_WITH(small_kernel("vadd.s32 %r1, %r0, 1;"), Contains("line 19 of small: vadd.s32 %r1, %r0, 1"));
  CHECK_THROWS_WITH(small_kernel("add.rz.f32 %f1, %f0, %f0;"), Contains("not known"));
  CHECK_THROWS_WITH(small_kernel("ld.global.nc.u32 %r1, [%rd0];"), Contains("not known"));
  CHECK_THROWS_WITH(small_kernel("bar.sync 1;"), Contains("not known"));
  CHECK_THROWS_WITH(small_kernel("add.s32 %r1, %r99, 1;"), Contains("%r99 was not declared"));
  CHECK_THROWS_WITH(small_kernel("add.s32 %r1, %rd1, 1;"), Contains("%rd1 has not 4 bytes"));
  CHECK_THROWS_WITH(small_kernel("add.s32 %r1, %r0;"), Contains("not known"));
  CHECK_THROWS_WITH(small_kernel("bra nowhere;"), Contains("nowhere"));
  CHECK_THROWS_WITH(small_kernel("ld.global.v2.u32 %r1, [%rd0];"), Contains("not known"));
  CHECK_THROWS_WITH(small_kernel("st.param.u32 [out], %r1;"), Contains("parameters"));
}

TEST_CASE("a launch that does not fit the kernel is rejected") {
  CHECK_THROWS_WITH(results_of("", {.threads = 33}), Contains("33 threads are no whole warps"));
  CHECK_THROWS_WITH(results_of("", {.threads = 2048}), Contains("2048 threads"));
}

}  // namespace
}  // namespace zeroth::testing::ptx
