// SPDX-License-Identifier: Apache-2.0
#include "gpu/matmul.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/kernels/gelu.hpp"
#include "gpu/launch.hpp"
#include "gpu/memory.hpp"
#include "gpu/stopwatch.hpp"
#include "shard/layout.hpp"
#include "zeroth/core/error.hpp"

// cuBLASLt supports row-major matrices, but not with all of its epilogues. A row-major matrix is the transpose of a
// column-major one, so we ask for out' = op(b)' op(a)' in column-major order: `b` comes first, and the bias, one per
// column of ours, is one per row of its.
namespace gpt::gpu {

namespace {

using zeroth::Dtype;

/// The alignment that algorithms may assume: cudaMalloc aligns memory to it, and the parameters of units are aligned to
/// it in turn.
constexpr std::uint32_t address_bytes = 256;
static_assert(zeroth::shard::alignment_count * zeroth::bytes_of(Dtype::bf16) % address_bytes == 0);

void expect_done(cublasStatus_t status, std::string_view call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw zeroth::SystemError{fmt::format("{}: {}", call, cublasLtGetStatusName(status))};
  }
}

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return CUDA_R_16BF;
    case Dtype::fp16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

/// Owns a cuBLASLt object, which destroy() frees.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) {
      static_cast<void>(destroy(handle_));
    }
  }
  [[nodiscard]] Handle* address() { return &handle_; }
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Library = Owned<cublasLtHandle_t, cublasLtDestroy>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(Description const& description, cublasLtMatmulDescAttributes_t attribute, Value const& value) {
  expect_done(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)),
              "cublasLtMatmulDescSetAttribute");
}

void expect_aligned(Product const& p) {
  using Named = std::pair<char const*, void const*>;
  for (auto const& [name, address] : {Named{"a", p.a.data}, Named{"b", p.b.data}, Named{"out", p.out.data},
                                      Named{"addend", p.addend}, Named{"bias", p.bias}, Named{"inner", p.inner}}) {
    ZEROTH_EXPECTS(reinterpret_cast<std::uintptr_t>(address) % address_bytes == 0,
                   fmt::format("matmul: {} at {}: allowed are multiples of {} bytes", name, address, address_bytes));
  }
}

/// A product as cuBLASLt describes it, and the chosen algorithm.
struct Plan {
  Description description;
  Layout first, second, out;  // op(b)', op(a)'
  bool gelu_follows;          // in a separate kernel
  cublasLtMatmulAlgo_t algorithm{};
};

using Result = cublasLtMatmulHeuristicResult_t;

/// A product, and the algorithms that cuBLASLt has for it.
struct Offer {
  Plan plan;
  std::vector<Result> results;

  /// The plan with one of them.
  Plan use(std::size_t result) && {
    plan.algorithm = results.at(result).algo;
    return std::move(plan);
  }
};

cublasLtEpilogue_t epilogue_of(Epilogue epilogue, bool gelu_follows) {
  switch (epilogue) {
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu: return gelu_follows ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_slope: return gelu_follows ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_DGELU;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

Layout layout_of(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  Layout layout;
  expect_done(cublasLtMatrixLayoutCreate(layout.address(), type_of(dtype), static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(cols), stride),
              "cublasLtMatrixLayoutCreate");
  return layout;
}

template <zeroth::Element T>
void launch_gelu(cudaStream_t stream, void const* from, void* to, std::int64_t count, bool slope) {
  Gelu<T> const body{static_cast<T const*>(from), static_cast<T*>(to), count, slope};
  expect(launch(stream, body, body.work()), "gelu");
}

void launch_gelu(cudaStream_t stream, Dtype dtype, void const* from, void* to, std::int64_t count, bool slope) {
  switch (dtype) {
    case Dtype::bf16: return launch_gelu<zeroth::bf16>(stream, from, to, count, slope);
    case Dtype::fp16: return launch_gelu<zeroth::fp16>(stream, from, to, count, slope);
    default: return launch_gelu<float>(stream, from, to, count, slope);
  }
}

}  // namespace

struct Matmul::State {
  cudaStream_t stream;
  MatmulOptions options;
  Library library;
  Preference preference;
  Matrix<std::byte> workspace;
  std::map<ProductKind, Plan> plans;
  Stopwatch stopwatch;

  Plan& plan_for(ProductKind const& kind, Product const& product) {
    if (auto const found = plans.find(kind); found != plans.end()) {
      return found->second;
    }
    if (options.measured != nullptr && !options.measured->contain(kind)) {
      options.measured->add(kind, measure(kind, product));
    }
    Algorithms const* const given = options.measured != nullptr ? options.measured : options.algorithms.get();
    auto plan = given != nullptr ? plan_of(kind, *given) : offered(kind, product, 1).use(0);
    return plans.emplace(kind, std::move(plan)).first->second;
  }

  /// The results of cuBLASLt's heuristics, the best first. At least one, and at most `count`. Throws SystemError if
  /// there is none.
  Offer offered(ProductKind const& kind, Product const& product, int count) const {
    std::optional<Offer> offer;
    if (!has_gelu(kind.epilogue) || may_fuse_gelu(kind)) {
      offer = offered(kind, product, count, false);
    }
    if (!offer.has_value() && has_gelu(kind.epilogue)) {
      offer = offered(kind, product, count, true);
    }
    if (!offer.has_value()) {
      throw zeroth::SystemError{
          fmt::format("cuBLASLt has no algorithm for {} (CUBLASLT_LOG_LEVEL=5 makes it say why)", describe(kind))};
    }
    return std::move(*offer);
  }
  /// nullopt if the library has no algorithm.
  std::optional<Offer> offered(ProductKind const& kind, Product const& product, int count, bool gelu_follows) const {
    Offer offer{describe_to_library(kind, gelu_follows), std::vector<Result>(static_cast<std::size_t>(count))};
    auto const& plan = offer.plan;
    point(plan, product);  // the choice of algorithm also depends on the alignment of bias and inner
    int found = 0;
    auto const status = cublasLtMatmulAlgoGetHeuristic(library.get(), plan.description.get(), plan.first.get(),
                                                       plan.second.get(), plan.out.get(), plan.out.get(),
                                                       preference.get(), count, offer.results.data(), &found);
    bool const refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                         (status == CUBLAS_STATUS_INVALID_VALUE && has_gelu(kind.epilogue) && !gelu_follows);
    if (!refused && status != CUBLAS_STATUS_SUCCESS) {
      expect_done(status, "cublasLtMatmulAlgoGetHeuristic for " + describe(kind));
    }
    offer.results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(found) : 0);
    std::erase_if(offer.results, [](Result const& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    if (offer.results.empty()) {
      return {};
    }
    return offer;
  }

  /// The plan with a given algorithm. Throws ConfigError if there is none, or the library rejects it.
  Plan plan_of(ProductKind const& kind, Algorithms const& given) const {
    auto const& algorithm = given.of(kind);
    auto plan = describe_to_library(kind, algorithm.separate_gelu);
    static_assert(sizeof(plan.algorithm) == sizeof(algorithm.data));
    std::memcpy(&plan.algorithm, algorithm.data.data(), sizeof(plan.algorithm));
    Result result{};
    auto const status =
        cublasLtMatmulAlgoCheck(library.get(), plan.description.get(), plan.first.get(), plan.second.get(),
                                plan.out.get(), plan.out.get(), &plan.algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw zeroth::ConfigError{
          fmt::format("{}: algorithm for {}: cuBLASLt rejects it ({}); allowed are algorithms that bench_cuda_gpt "
                      "--algorithms wrote",
                      given.source(), describe(kind), cublasLtGetStatusName(status))};
    }
    if (result.workspaceSize > static_cast<std::size_t>(workspace_bytes)) {
      throw zeroth::ConfigError{fmt::format("{}: algorithm for {}: it needs {} bytes of workspace; allowed: up to {}",
                                            given.source(), describe(kind), result.workspaceSize, workspace_bytes)};
    }
    return plan;
  }

  /// The fastest of the results that cuBLASLt offers.
  Algorithm measure(ProductKind const& kind, Product const& product) {
    auto offer = offered(kind, product, results_compared);
    std::vector<std::vector<double>> times(offer.results.size());
    for (int round = -1; round < 5; ++round) {  // one warm-up round
      for (std::size_t i = 0; i < times.size(); ++i) {
        offer.plan.algorithm = offer.results[i].algo;
        double const us = stopwatch.us(stream, [&] { run(product, kind, offer.plan); });
        if (round >= 0) {
          times[i].push_back(us);
        }
      }
    }
    Algorithm fastest{.separate_gelu = offer.plan.gelu_follows};
    for (auto& each : times) {
      std::ranges::nth_element(each, each.begin() + std::ssize(each) / 2);
      fastest.us.push_back(each[each.size() / 2]);
    }
    fastest.result = static_cast<int>(std::ranges::min_element(fastest.us) - fastest.us.begin());
    auto const& result = offer.results[static_cast<std::size_t>(fastest.result)];
    std::memcpy(fastest.data.data(), &result.algo, sizeof(result.algo));
    fastest.workspace_bytes = static_cast<std::int64_t>(result.workspaceSize);
    return fastest;
  }

  Plan describe_to_library(ProductKind const& kind, bool gelu_follows) const {
    auto const factor = [&](bool transposed, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
      return transposed ? layout_of(kind.factors, cols, rows, stride) : layout_of(kind.factors, rows, cols, stride);
    };
    Plan plan{.description = {},
              .first = factor(kind.b_transposed, kind.n, kind.k, kind.b_stride),
              .second = factor(kind.a_transposed, kind.k, kind.m, kind.a_stride),
              .out = layout_of(kind.out, kind.n, kind.m, kind.out_stride),
              .gelu_follows = gelu_follows};
    auto const compute =
        options.tf32 && kind.factors == Dtype::fp32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    expect_done(cublasLtMatmulDescCreate(plan.description.address(), compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, kind.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, kind.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(kind.epilogue, gelu_follows));
    // Bias and inner have the output's type: the default, which the documentation recommends for these types.
    if (has_gelu(kind.epilogue) && !gelu_follows) {
      set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, kind.n);
    }
    return plan;
  }

  static void point(Plan const& plan, Product const& product) {
    if (product.bias != nullptr) {
      set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
    }
    if (has_gelu(product.epilogue) && !plan.gelu_follows) {
      set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.inner);
    }
  }

  void run(Product const& p, ProductKind const& kind, Plan const& plan) {
    bool const apart = plan.gelu_follows && kind.epilogue == Epilogue::bias_gelu;
    void* const out = apart ? p.inner : p.out.data;  // input of the separate GELU
    point(plan, p);
    float const alpha = 1;
    auto const status = cublasLtMatmul(library.get(), plan.description.get(), &alpha, p.b.data, plan.first.get(),
                                       p.a.data, plan.second.get(), &p.beta, p.addend != nullptr ? p.addend : out,
                                       plan.out.get(), out, plan.out.get(), &plan.algorithm, workspace.data(),
                                       static_cast<std::size_t>(workspace_bytes), stream);
    if (status != CUBLAS_STATUS_SUCCESS) {
      expect_done(status, "cublasLtMatmul for " + describe(kind));
    }
    if (plan.gelu_follows) {
      launch_gelu(stream, p.out.dtype, p.inner, p.out.data, kind.m * kind.n, kind.epilogue == Epilogue::gelu_slope);
    }
  }
};

Origin origin_here(bool tf32) {
  int gpu = 0;
  cudaDeviceProp properties{};
  expect(cudaGetDevice(&gpu), "cudaGetDevice");
  expect(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  return {properties.name, static_cast<std::int64_t>(cublasLtGetVersion()), tf32};
}

Matmul::Matmul(cudaStream_t stream, MatmulOptions const& options) : state_{std::make_unique<State>()} {
  state_->stream = stream;
  state_->options = options;
  if (options.algorithms) {
    options.algorithms->expect_origin(origin_here(options.tf32));
  }
  expect_done(cublasLtCreate(state_->library.address()), "cublasLtCreate");
  expect_done(cublasLtMatmulPreferenceCreate(state_->preference.address()), "cublasLtMatmulPreferenceCreate");
  auto const prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto const& value) {
    expect_done(cublasLtMatmulPreferenceSetAttribute(state_->preference.get(), attribute, &value, sizeof(value)),
                "cublasLtMatmulPreferenceSetAttribute");
  };
  state_->workspace.resize(1, workspace_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(workspace_bytes));
  // The library's default, stated because kind_of() ensures it.
  for (auto const attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(attribute, address_bytes);
  }
  // Unsplit sums are always allowed. Parts of a split sum are added in fp32, in order, after the product.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
}

Matmul::~Matmul() = default;

void Matmul::operator()(Product const& product) {
  auto const kind = kind_of(product);
  expect_aligned(product);
  state_->run(product, kind, state_->plan_for(kind, product));
}

}  // namespace gpt::gpu
