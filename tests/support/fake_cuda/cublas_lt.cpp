#include "support/fake_cuda/cublas_lt.hpp"

#include <cublasLt.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "support/fake_cuda/fake_cuda.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing::fake_cuda {
namespace {

std::atomic<bool> gelu_offered{true};
std::atomic<std::int64_t> asked{0}, fused{0};

struct Description {
  cublasComputeType_t compute;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_ld = 0;
  std::int32_t bias_type = -1, aux_type = -1;
};

struct Preference {
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;  // all, until it is told
};

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
  return shapes && known && (!has_bias(d) || d.bias_type == static_cast<std::int32_t>(out.type));
}

bool is_offered(Description const& d, Layout const& out) {
  // As documented: rows of what is kept for backward are multiples of 8 elements.
  return !has_aux(d) || (gelu_offered && d.aux_ld >= out.rows && d.aux_ld % 8 == 0 &&
                         d.aux_type == static_cast<std::int32_t>(out.type));
}

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

bool aligned(void const* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace

void offer_gelu(bool offered) { gelu_offered = offered; }
std::int64_t heuristics_asked() { return asked; }
std::int64_t gelus_fused() { return fused; }

}  // namespace zeroth::testing::fake_cuda

using namespace zeroth::testing::fake_cuda;

extern "C" {

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
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return bytes == sizeof(std::uint64_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return take(of(handle).reduction_schemes, value, bytes);
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
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return take(d.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return take(d.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return take(d.aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return take(d.aux_type, value, bytes);
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
  if (requested < 1 || !ordered || !makes_sense(of(description), of(a), of(b), of(d))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!is_offered(of(description), of(d))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description, void const* alpha,
                              void const* a_data, cublasLtMatrixLayout_t a, void const* b_data,
                              cublasLtMatrixLayout_t b, void const* beta, void const* c_data, cublasLtMatrixLayout_t c,
                              void* d_data, cublasLtMatrixLayout_t d, cublasLtMatmulAlgo_t const* /*algorithm*/,
                              void* /*workspace*/, size_t /*workspace_bytes*/, cudaStream_t stream) {
  auto const& how = of(description);
  bool const there = aligned(a_data) && aligned(b_data) && aligned(c_data) && aligned(d_data) &&
                     (!has_bias(how) || (how.bias != nullptr && aligned(how.bias))) &&
                     (!has_aux(how) || (how.aux != nullptr && aligned(how.aux)));
  if (!there || !makes_sense(how, of(a), of(b), of(d)) || !is_offered(how, of(d))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  fused += has_aux(how) ? 1 : 0;
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
