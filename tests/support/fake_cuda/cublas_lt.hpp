// SPDX-License-Identifier: Apache-2.0
/// A cuBLASLt for tests on machines without a GPU, linked in place of the library. Products are plain loops in fp64, as
/// work of the streams of fake_cuda.hpp, column by column as cuBLASLt reads them.
///
/// It replaces the functions that the examples call, and knows the attributes and epilogues that they use. Others are
/// refused, and so are the arguments that cuBLASLt refuses. An algorithm uses all that it was allowed to when it was
/// asked for: the workspace, and the alignment of every address; and it is for what it was asked for alone. Also
/// refused, though cuBLASLt has algorithms for it: reduction schemes other than the one that adds split sums in order,
/// in the type that they are computed in. And what cuBLASLt does not notice: a thread, a stream or memory of another
/// GPU than the handle's, matrices that reach beyond their memory, a result that lies over a factor.
#pragma once
#include <cstdint>

namespace zeroth::testing::fake_cuda {

/// Whether there are algorithms with GELU in the epilogue. True after a start.
void offer_gelu(bool are_there);
/// Whether there are algorithms at all. True after a start.
void offer_algorithms(bool are_there);
/// How often an algorithm was asked for since the start.
[[nodiscard]] std::int64_t heuristics_asked();
/// Products with GELU in the epilogue since the start.
[[nodiscard]] std::int64_t gelus_fused();
/// Products since the start with a matrix whose rows do not all begin at multiples of 16 bytes.
[[nodiscard]] std::int64_t products_in_slow_rows();

}  // namespace zeroth::testing::fake_cuda
