// SPDX-License-Identifier: Apache-2.0
// With ZEROTH_EIGEN_BLAS this is compiled into every program that uses zeroth_eigen. Limits OpenBLAS to one thread per
// rank: by default it divides each rank's products among as many threads as there are cores, and the ranks' threads
// slow each other down.
extern "C" void openblas_set_num_threads(int threads);

namespace {
[[maybe_unused]] bool const is_set = (openblas_set_num_threads(1), true);
}  // namespace
