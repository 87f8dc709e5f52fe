// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cuda/cublas_lt.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <mutex>

#include "support/fake_cuda/fake_cuda.hpp"
#include "support/fake_cuda/machine.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing::fake_cuda {
namespace {

std::atomic<bool> gelu_offered{true}, offered{true};
std::atomic<std::int64_t> asked{0}, fused{0}, slow{0};
std::atomic<int> fastest{0};
std::atomic<std::uint64_t> version{130100}, extra_workspace{0};
constexpr int most_results = 8;
std::array<std::atomic<std::int64_t>, most_results> used{};

/// The object of a handle, which belongs to the GPU that was current when it was made.
struct Library {
  int gpu;
};

struct Description {
  cublasComputeType_t compute;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
};

/// Alignments that algorithms may rely on, in bytes.
struct Alignments {
  std::uint32_t a = 256, b = 256, c = 256, d = 256;  // until they are set
};

struct Preference {
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;  // all, until it is set
  std::uint64_t workspace_bytes = 0;
  Alignments alignments;
};

/// The problem that an algorithm solves, its index among the results, and its requirements: all that it was allowed.
struct Algorithm {
  std::uint64_t problem, workspace_bytes;
  Alignments alignments;
  std::uint32_t bias_alignment, aux_alignment;
  std::int32_t result;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

struct Layout {
  cudaDataType_t type;
  std::int64_t rows, cols, ld;
};

std::int64_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

double read(void const* data, cudaDataType_t type, std::int64_t at) {
  switch (type) {
    case CUDA_R_16BF: return static_cast<double>(to_float(static_cast<bf16 const*>(data)[at]));
    case CUDA_R_16F: return static_cast<double>(to_float(static_cast<fp16 const*>(data)[at]));
    default: return static_cast<double>(static_cast<float const*>(data)[at]);
  }
}

void write(void* data, cudaDataType_t type, std::int64_t at, double value) {
  auto const narrow = static_cast<float>(value);
  switch (type) {
    case CUDA_R_16BF: static_cast<bf16*>(data)[at] = from_float<bf16>(narrow); break;
    case CUDA_R_16F: static_cast<fp16*>(data)[at] = from_float<fp16>(narrow); break;
    default: static_cast<float*>(data)[at] = narrow;
  }
}

double tanh_of(double u) { return std::tanh(0.7978845608028654 * (u + 0.044715 * u * u * u)); }
double gelu(double u) { return 0.5 * u * (1 + tanh_of(u)); }
double gelu_slope(double u) {
  double const t = tanh_of(u);
  return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * u * u);
}

bool has_bias(Description const& d) {
  return d.epilogue == CUBLASLT_EPILOGUE_BIAS || d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool has_aux(Description const& d) {
  return d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || d.epilogue == CUBLASLT_EPILOGUE_DGELU;
}

struct Multiplication {
  Description description;
  Layout a, b, c, d;
  void const *a_data, *b_data, *c_data;
  void* d_data;
  double alpha, beta;
  std::int64_t k;
  int us;  ///< The simulated time that it takes.

  void operator()() const {
    pass_time(us);
    for (std::int64_t j = 0; j < d.cols; ++j) {
      for (std::int64_t i = 0; i < d.rows; ++i) {
        write(d_data, d.type, i + j * d.ld, finished(i, j));
      }
    }
  }

 private:
  [[nodiscard]] double finished(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t l = 0; l < k; ++l) {
      sum += read(a_data, a.type, description.transpose_a == CUBLAS_OP_T ? l + i * a.ld : i + l * a.ld) *
             read(b_data, b.type, description.transpose_b == CUBLAS_OP_T ? j + l * b.ld : l + j * b.ld);
    }
    sum = alpha * sum + (beta == 0 ? 0 : beta * read(c_data, c.type, i + j * c.ld));
    sum += has_bias(description) ? read(description.bias, d.type, i) : 0;
    auto const at = i + j * description.aux_ld;
    if (description.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      write(description.aux, d.type, at, sum);
      return gelu(sum);
    }
    return description.epilogue == CUBLASLT_EPILOGUE_DGELU ? sum * gelu_slope(read(description.aux, d.type, at)) : sum;
  }
};

/// Whether the shapes fit, and the epilogue exists.
bool makes_sense(Description const& d, Layout const& a, Layout const& b, Layout const& out) {
  bool const ta = d.transpose_a == CUBLAS_OP_T;
  bool const tb = d.transpose_b == CUBLAS_OP_T;
  bool const shapes = (ta ? a.cols : a.rows) == out.rows && (tb ? b.rows : b.cols) == out.cols &&
                      (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) && a.type == b.type &&
                      (out.type == a.type || out.type == CUDA_R_32F);
  bool const known = d.epilogue == CUBLASLT_EPILOGUE_DEFAULT || d.epilogue == CUBLASLT_EPILOGUE_BIAS || has_aux(d);
  return shapes && known;
}

/// As documented: the rows kept for backward are multiples of 8 elements.
bool keeps_well(Description const& d, Layout const& out) {
  return !has_aux(d) || (d.aux_ld >= out.rows && d.aux_ld % 8 == 0);
}
bool is_offered(Description const& d) { return offered && (!has_aux(d) || gelu_offered); }

/// A hash of everything that selects an algorithm, except addresses.
std::uint64_t problem_of(Description const& d, std::initializer_list<Layout> layouts) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  auto const add = [&](auto value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211U; };
  add(d.compute);
  add(d.transpose_a);
  add(d.transpose_b);
  add(d.epilogue);
  add(d.aux_ld);
  for (auto const& layout : layouts) {
    add(layout.type);
    add(layout.rows);
    add(layout.cols);
    add(layout.ld);
  }
  return hash;
}

Library const& of(cublasLtHandle_t handle) { return *reinterpret_cast<Library const*>(handle); }
Description& of(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Description*>(handle); }
Preference& of(cublasLtMatmulPreference_t handle) { return *reinterpret_cast<Preference*>(handle); }
Layout const& of(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout const*>(handle); }

template <class Value>
cublasStatus_t take(Value& into, void const* from, std::size_t bytes) {
  if (bytes != sizeof(Value)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&into, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool aligned(void const* data, std::uint32_t bytes) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; }
/// The largest power of two that divides an address, up to 256 bytes.
std::uint32_t alignment_of(void const* data) {
  std::uint32_t bytes = 256;
  while (!aligned(data, bytes)) {
    bytes /= 2;
  }
  return bytes;
}

/// Whether rows, which are columns here, begin at multiples of 16 bytes: otherwise tensor cores are fed slowly.
bool has_fast_rows(Layout const& layout) { return layout.ld * bytes_of(layout.type) % 16 == 0; }

/// Memory from the first element to the last.
struct Extent {
  void const* data;
  std::int64_t bytes;
};
Extent extent_of(void const* data, Layout const& layout) {
  return {data, ((layout.cols - 1) * layout.ld + layout.rows) * bytes_of(layout.type)};
}
bool overlap(Extent const& a, Extent const& b) {
  auto const begin_of_a = reinterpret_cast<std::uintptr_t>(a.data);
  auto const begin_of_b = reinterpret_cast<std::uintptr_t>(b.data);
  return begin_of_a < begin_of_b + static_cast<std::uintptr_t>(b.bytes) &&
         begin_of_b < begin_of_a + static_cast<std::uintptr_t>(a.bytes);
}

/// Whether a product is in place with one layout, or out of place with equal layouts.
bool takes_place(void const* c_data, Layout const& c, void const* d_data, Layout const& d) {
  bool const in_place = c_data == d_data && c.ld == d.ld;
  return c.type == d.type && c.rows == d.rows && c.cols == d.cols &&
         (in_place || !overlap(extent_of(c_data, c), extent_of(d_data, d)));
}

/// Whether the GPU of the handle is that of the thread and of the stream, and owns all of the memory.
bool is_at_home(Library const& library, cudaStream_t stream, std::initializer_list<Extent> memory) {
  auto& state = State::get();
  std::lock_guard const lock{state.mutex};
  stream = state.resolve(stream);
  bool all = current_gpu() == library.gpu && state.streams.contains(stream) && stream->gpu == library.gpu;
  for (auto const& [data, bytes] : memory) {
    auto const* const block = state.find(data, static_cast<std::size_t>(bytes));
    all = all && block != nullptr && block->gpu == library.gpu;
  }
  return all;
}

}  // namespace

void offer_gelu(bool are_there) { gelu_offered = are_there; }
void offer_algorithms(bool are_there) { offered = are_there; }
std::int64_t products_in_slow_rows() { return slow; }
std::int64_t heuristics_asked() { return asked; }
std::int64_t gelus_fused() { return fused; }
void make_fastest(int result) { fastest = result; }
std::int64_t products_by_result(int result) { return used.at(static_cast<std::size_t>(result)); }
void set_cublas_lt_version(std::uint64_t number) { version = number; }
void grow_workspaces(std::uint64_t bytes) { extra_workspace = bytes; }

}  // namespace zeroth::testing::fake_cuda

using namespace zeroth::testing::fake_cuda;

extern "C" {

char const* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "CUBLAS_STATUS_UNKNOWN";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new Library{current_gpu()});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete &of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference{});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, void const* value,
                                                    size_t bytes) {
  auto& preference = of(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return take(preference.workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return take(preference.reduction_schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return take(preference.alignments.a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return take(preference.alignments.b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return take(preference.alignments.c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return take(preference.alignments.d, value, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F || (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &of(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              void const* value, size_t bytes) {
  auto& d = of(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(d.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(d.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(d.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(d.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return take(d.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return take(d.aux_ld, value, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  if (ld < static_cast<int64_t>(rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  ++asked;
  *found = 0;
  // Only split sums whose order is the same in every run.
  bool const ordered = of(preference).reduction_schemes == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  auto const& how = of(description);
  if (requested < 1 || current_gpu() != of(handle).gpu || !ordered || !makes_sense(how, of(a), of(b), of(d)) ||
      !keeps_well(how, of(d))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!is_offered(how)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *found = std::min(requested, most_results);
  for (int i = 0; i < *found; ++i) {
    Algorithm const algorithm{problem_of(how, {of(a), of(b), of(c), of(d)}),
                              of(preference).workspace_bytes >> static_cast<unsigned>(i),
                              of(preference).alignments,
                              alignment_of(how.bias),
                              alignment_of(how.aux),
                              i};
    std::memcpy(results[i].algo.data, &algorithm, sizeof(algorithm));
    results[i].workspaceSize = algorithm.workspace_bytes;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return version; }

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, cublasLtMatmulAlgo_t const* chosen,
                                       cublasLtMatmulHeuristicResult_t* result) {
  auto const& how = of(description);
  Algorithm needs{};
  std::memcpy(&needs, chosen->data, sizeof(needs));
  bool const is_for_this = needs.problem == problem_of(how, {of(a), of(b), of(c), of(d)});
  if (current_gpu() != of(handle).gpu || !is_for_this || needs.result < 0 || needs.result >= most_results) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!is_offered(how)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  result->workspaceSize = needs.workspace_bytes + extra_workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, void const* alpha,
                              void const* a_data, cublasLtMatrixLayout_t a, void const* b_data,
                              cublasLtMatrixLayout_t b, void const* beta, void const* c_data, cublasLtMatrixLayout_t c,
                              void* d_data, cublasLtMatrixLayout_t d, cublasLtMatmulAlgo_t const* chosen,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  auto const& how = of(description);
  Algorithm needs{};
  std::memcpy(&needs, chosen->data, sizeof(needs));
  auto const read_a = extent_of(a_data, of(a));
  auto const read_b = extent_of(b_data, of(b));
  auto const written = extent_of(d_data, of(d));
  Extent const room{workspace, static_cast<std::int64_t>(workspace_bytes)};
  Extent const bias{has_bias(how) ? how.bias : d_data, has_bias(how) ? of(d).rows * bytes_of(of(d).type) : 1};
  auto const aux =
      has_aux(how) ? extent_of(how.aux, {of(d).type, of(d).rows, of(d).cols, how.aux_ld}) : Extent{d_data, 1};
  bool const there =
      aligned(a_data, needs.alignments.a) && aligned(b_data, needs.alignments.b) &&
      aligned(c_data, needs.alignments.c) && aligned(d_data, needs.alignments.d) &&
      (!has_bias(how) || aligned(how.bias, needs.bias_alignment)) &&
      (!has_aux(how) || aligned(how.aux, needs.aux_alignment)) &&
      is_at_home(of(handle), stream, {read_a, read_b, extent_of(c_data, of(c)), written, room, bias, aux});
  bool const apart =
      !overlap(written, read_a) && !overlap(written, read_b) && (!has_aux(how) || !overlap(written, aux));
  bool const has_room = aligned(workspace, 256) && workspace_bytes >= needs.workspace_bytes;
  bool const is_for_this = needs.problem == problem_of(how, {of(a), of(b), of(c), of(d)}) && needs.result >= 0 &&
                           needs.result < most_results;
  if (!there || !apart || !has_room || !is_for_this || !takes_place(c_data, of(c), d_data, of(d)) ||
      !makes_sense(how, of(a), of(b), of(d)) || !keeps_well(how, of(d)) || !is_offered(how)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  fused += has_aux(how) ? 1 : 0;
  ++used.at(static_cast<std::size_t>(needs.result));
  slow += has_fast_rows(of(a)) && has_fast_rows(of(b)) && has_fast_rows(of(d)) ? 0 : 1;
  Multiplication const work{how,
                            of(a),
                            of(b),
                            of(c),
                            of(d),
                            a_data,
                            b_data,
                            c_data,
                            d_data,
                            static_cast<double>(*static_cast<float const*>(alpha)),
                            static_cast<double>(*static_cast<float const*>(beta)),
                            how.transpose_a == CUBLAS_OP_T ? of(a).rows : of(a).cols,
                            needs.result == fastest ? 10 : 100 + needs.result};
  return enqueue(stream, work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
