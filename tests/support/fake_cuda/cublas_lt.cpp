#include "support/fake_cuda/cublas_lt.hpp"

#include <cublasLt.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "support/fake_cuda/fake_cuda.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing::fake_cuda {
namespace {

std::atomic<bool> gelu_offered{true}, offered{true};
std::atomic<std::int64_t> asked{0}, fused{0}, slow{0};

struct Description {
  cublasComputeType_t compute;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
};

/// What algorithms may count on, in bytes.
struct Alignments {
  std::uint32_t a = 256, b = 256, c = 256, d = 256;  // until it is told
};

struct Preference {
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;  // all, until it is told
  std::uint64_t workspace_bytes = 0;
  Alignments alignments;
};

/// What an algorithm needs: as much as it was allowed to.
struct Algorithm {
  std::uint64_t workspace_bytes;
  Alignments alignments;
  std::uint32_t bias_alignment, aux_alignment;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

struct Layout {
  cudaDataType_t type;
  std::int64_t rows, cols, ld;
};

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

  void operator()() const {
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

/// The shapes fit, and the epilogue is one that there is.
bool makes_sense(Description const& d, Layout const& a, Layout const& b, Layout const& out) {
  bool const ta = d.transpose_a == CUBLAS_OP_T;
  bool const tb = d.transpose_b == CUBLAS_OP_T;
  bool const shapes = (ta ? a.cols : a.rows) == out.rows && (tb ? b.rows : b.cols) == out.cols &&
                      (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) && a.type == b.type &&
                      (out.type == a.type || out.type == CUDA_R_32F);
  bool const known = d.epilogue == CUBLASLT_EPILOGUE_DEFAULT || d.epilogue == CUBLASLT_EPILOGUE_BIAS || has_aux(d);
  return shapes && known;
}

/// As documented: rows of what is kept for backward are multiples of 8 elements.
bool keeps_well(Description const& d, Layout const& out) {
  return !has_aux(d) || (d.aux_ld >= out.rows && d.aux_ld % 8 == 0);
}
bool is_offered(Description const& d) { return offered && (!has_aux(d) || gelu_offered); }

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
/// What an address is a multiple of, up to 256 bytes.
std::uint32_t alignment_of(void const* data) {
  std::uint32_t bytes = 256;
  while (!aligned(data, bytes)) {
    bytes /= 2;
  }
  return bytes;
}

/// Rows, which are columns here, begin at multiples of 16 bytes: without that, tensor cores are fed slowly.
bool has_fast_rows(Layout const& layout) {
  std::int64_t const element_bytes = layout.type == CUDA_R_32F ? 4 : 2;
  return layout.ld * element_bytes % 16 == 0;
}

/// In place with one layout, or out of place with layouts that are alike.
bool takes_place(void const* c_data, Layout const& c, void const* d_data, Layout const& d) {
  return c.type == d.type && c.rows == d.rows && c.cols == d.cols && (c_data != d_data || c.ld == d.ld);
}

}  // namespace

void offer_gelu(bool are_there) { gelu_offered = are_there; }
void offer_algorithms(bool are_there) { offered = are_there; }
std::int64_t products_in_slow_rows() { return slow; }
std::int64_t heuristics_asked() { return asked; }
std::int64_t gelus_fused() { return fused; }

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
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
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

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  ++asked;
  *found = 0;
  // Of split sums only those whose order is the same in every run.
  bool const ordered = of(preference).reduction_schemes == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  auto const& how = of(description);
  if (requested < 1 || !ordered || !makes_sense(how, of(a), of(b), of(d)) || !keeps_well(how, of(d))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!is_offered(how)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Algorithm const algorithm{of(preference).workspace_bytes, of(preference).alignments, alignment_of(how.bias),
                            alignment_of(how.aux)};
  std::memcpy(results[0].algo.data, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = algorithm.workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description, void const* alpha,
                              void const* a_data, cublasLtMatrixLayout_t a, void const* b_data,
                              cublasLtMatrixLayout_t b, void const* beta, void const* c_data, cublasLtMatrixLayout_t c,
                              void* d_data, cublasLtMatrixLayout_t d, cublasLtMatmulAlgo_t const* chosen,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  auto const& how = of(description);
  Algorithm needs{};
  std::memcpy(&needs, chosen->data, sizeof(needs));
  bool const there = aligned(a_data, needs.alignments.a) && aligned(b_data, needs.alignments.b) &&
                     aligned(c_data, needs.alignments.c) && aligned(d_data, needs.alignments.d) &&
                     (!has_bias(how) || (how.bias != nullptr && aligned(how.bias, needs.bias_alignment))) &&
                     (!has_aux(how) || (how.aux != nullptr && aligned(how.aux, needs.aux_alignment)));
  bool const has_room = workspace != nullptr && aligned(workspace, 256) && workspace_bytes >= needs.workspace_bytes;
  if (!there || !has_room || !takes_place(c_data, of(c), d_data, of(d)) || !makes_sense(how, of(a), of(b), of(d)) ||
      !keeps_well(how, of(d)) || !is_offered(how)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  fused += has_aux(how) ? 1 : 0;
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
                            how.transpose_a == CUBLAS_OP_T ? of(a).rows : of(a).cols};
  return enqueue(stream, work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
