// SPDX-License-Identifier: Apache-2.0
// With ZEROTH_EIGEN_BLAS this is compiled into every program that uses zeroth_eigen. Ranks are the parallelism: left to
// itself, OpenBLAS spreads each rank's products over as many threads as there are cores, and all ranks wait for those.
extern "C" void openblas_set_num_threads(int threads);

namespace {
[[maybe_unused]] bool const is_set = (openblas_set_num_threads(1), true);
}  // namespace
