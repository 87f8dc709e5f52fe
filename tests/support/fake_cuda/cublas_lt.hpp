// SPDX-License-Identifier: Apache-2.0
/// A cuBLASLt for tests on machines without a GPU, linked instead of the library. Products are plain loops in fp64, as
/// work of the streams of fake_cuda.hpp, column by column as cuBLASLt reads them.
///
/// It replaces the functions that the library and the examples call, and knows the attributes and epilogues that they
/// use. It rejects others, and the arguments that cuBLASLt rejects.
/// An algorithm is valid only for the problem that it was requested for. It uses all that it was allowed: the
/// workspace, and the alignment of every address. Of up to 8 results each has half of the workspace of the one before.
/// It also rejects reduction schemes other than the one that adds split sums in order, in the compute type, though
/// cuBLASLt has algorithms for them; and mistakes that cuBLASLt does not notice: a thread, a stream or memory of
/// another GPU than the handle's, matrices that exceed their memory, and a result that overlaps a factor.
#pragma once
#include <cstdint>

namespace zeroth::testing::fake_cuda {

/// Sets whether the library finds a cuBLASLt. Initially true.
void install_cublas_lt(bool is_there);
/// Sets whether there are algorithms with GELU in the epilogue. Initially true.
void offer_gelu(bool are_there);
/// Sets whether there are algorithms at all. Initially true.
void offer_algorithms(bool are_there);
/// Sets the result whose algorithm takes 10 us of simulated time; that of result i takes 100 + i us. Initially 0.
void make_fastest(int result);
/// Products with the algorithm of a result since the start.
[[nodiscard]] std::int64_t products_by_result(int result);
/// Sets what cublasLtGetVersion() returns. Initially 130100.
void set_cublas_lt_version(std::uint64_t number);
/// Sets how much more workspace an algorithm needs, when it is checked, than when it was offered. Initially 0.
void grow_workspaces(std::uint64_t bytes);
/// The number of requests for an algorithm since the start.
[[nodiscard]] std::int64_t heuristics_asked();
/// Products with GELU in the epilogue since the start.
[[nodiscard]] std::int64_t gelus_fused();
/// Products since the start with a matrix whose rows do not all begin at multiples of 16 bytes.
[[nodiscard]] std::int64_t products_in_slow_rows();

}  // namespace zeroth::testing::fake_cuda
