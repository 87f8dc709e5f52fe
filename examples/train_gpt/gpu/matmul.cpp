#include "gpu/matmul.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "gpu/kernels/gelu.hpp"
#include "gpu/launch.hpp"
#include "gpu/memory.hpp"
#include "zeroth/core/error.hpp"

// cuBLASLt knows row-major matrices, but not all of its epilogues do. Rows that lie one behind the other are the
// columns of the transposed matrix, so what is asked of it is out' = op(b)' op(a)', column by column: `b` comes first,
// and the bias, one per column of ours, is one per row of its.
namespace gpt::gpu {

namespace {

using zeroth::Dtype;

constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;

void expect_done(cublasStatus_t status, char const* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw zeroth::SystemError{fmt::format("{}: cuBLAS status {}", call, static_cast<int>(status))};
  }
}

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return CUDA_R_16BF;
    case Dtype::fp16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

/// A cuBLASLt object that Destroy() ends.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
  Owned& operator=(Owned&&) = delete;
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

/// Everything about a product but its addresses.
struct Kind {
  std::int64_t m, n, k;  // of out: m x n
  bool a_transposed, b_transposed, adds, adds_other;
  Dtype factors, out;
  Epilogue epilogue;
  auto operator<=>(Kind const&) const = default;
};

Kind kind_of(Product const& p) {
  auto const [m, k] = p.a.transposed ? std::pair{p.a.cols, p.a.rows} : std::pair{p.a.rows, p.a.cols};
  auto const [k_of_b, n] = p.b.transposed ? std::pair{p.b.cols, p.b.rows} : std::pair{p.b.rows, p.b.cols};
  ZEROTH_EXPECTS(
      k == k_of_b && m > 0 && n > 0 && k > 0 && p.a.dtype == p.b.dtype,
      fmt::format("matmul: {} x {} {} times {} x {} {}", m, k, name_of(p.a.dtype), k_of_b, n, name_of(p.b.dtype)));
  ZEROTH_EXPECTS((p.beta != 0) || p.addend == nullptr, "matmul: an addend without beta");
  return {m, n, k, p.a.transposed, p.b.transposed, p.beta != 0, p.addend != nullptr, p.a.dtype, p.dtype, p.epilogue};
}

std::string describe(Kind const& kind) {
  return fmt::format("{} x {} x {}, {} to {}, epilogue {}", kind.m, kind.n, kind.k, name_of(kind.factors),
                     name_of(kind.out), static_cast<int>(kind.epilogue));
}

bool has_gelu(Epilogue epilogue) { return epilogue == Epilogue::bias_gelu || epilogue == Epilogue::gelu_slope; }

/// A product as cuBLASLt takes it, and the algorithm that was chosen.
struct Plan {
  Description description;
  Layout first, second, out;  // op(b)', op(a)'
  cublasLtMatmulAlgo_t algorithm{};
  bool gelu_follows = false;  // as a kernel of its own
};

cublasLtEpilogue_t epilogue_of(Epilogue epilogue, bool gelu_follows) {
  switch (epilogue) {
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu: return gelu_follows ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_slope: return gelu_follows ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_DGELU;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

Layout layout_of(Dtype dtype, std::int64_t rows, std::int64_t cols) {
  Layout layout;
  expect_done(cublasLtMatrixLayoutCreate(layout.address(), type_of(dtype), static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(cols), rows),
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
  std::map<Kind, Plan> plans;

  Plan& plan_for(Kind const& kind, Product const& product) {
    if (auto const found = plans.find(kind); found != plans.end()) {
      return found->second;
    }
    Plan plan = describe_to_library(kind);
    point(plan, product);
    if (!choose(plan)) {
      if (has_gelu(kind.epilogue)) {
        plan.gelu_follows = true;
        set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(kind.epilogue, true));
      }
      if (!plan.gelu_follows || !choose(plan)) {
        throw zeroth::SystemError{fmt::format("cuBLASLt has no algorithm for {}", gpu::describe(kind))};
      }
    }
    return plans.emplace(kind, std::move(plan)).first->second;
  }

  Plan describe_to_library(Kind const& kind) const {
    Plan plan{
        .description = {},
        .first = kind.b_transposed ? layout_of(kind.factors, kind.k, kind.n) : layout_of(kind.factors, kind.n, kind.k),
        .second = kind.a_transposed ? layout_of(kind.factors, kind.m, kind.k) : layout_of(kind.factors, kind.k, kind.m),
        .out = layout_of(kind.out, kind.n, kind.m)};
    auto const compute =
        options.tf32 && kind.factors == Dtype::fp32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    expect_done(cublasLtMatmulDescCreate(plan.description.address(), compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, kind.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, kind.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(kind.epilogue, false));
    if (kind.epilogue == Epilogue::bias || kind.epilogue == Epilogue::bias_gelu) {
      set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(kind.out));
    }
    if (has_gelu(kind.epilogue)) {
      set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type_of(kind.out));
      set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, kind.n);
    }
    return plan;
  }

  /// False if the library has none.
  bool choose(Plan& plan) const {
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    auto const status =
        cublasLtMatmulAlgoGetHeuristic(library.get(), plan.description.get(), plan.first.get(), plan.second.get(),
                                       plan.out.get(), plan.out.get(), preference.get(), 1, &result, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
      expect_done(status, "cublasLtMatmulAlgoGetHeuristic");
    }
    plan.algorithm = result.algo;
    return status == CUBLAS_STATUS_SUCCESS && found > 0;
  }

  static void point(Plan const& plan, Product const& product) {
    if (product.bias != nullptr) {
      set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
    }
    if (has_gelu(product.epilogue) && !plan.gelu_follows) {
      set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.inner);
    }
  }

  void run(Product const& p, Kind const& kind, Plan const& plan) {
    bool const apart = plan.gelu_follows && kind.epilogue == Epilogue::bias_gelu;
    void* const out = apart ? p.inner : p.out;  // then GELU goes from there
    point(plan, p);
    float const alpha = 1;
    expect_done(cublasLtMatmul(library.get(), plan.description.get(), &alpha, p.b.data, plan.first.get(), p.a.data,
                               plan.second.get(), &p.beta, p.addend != nullptr ? p.addend : out, plan.out.get(), out,
                               plan.out.get(), &plan.algorithm, workspace.data(), workspace_bytes, stream),
                "cublasLtMatmul");
    if (plan.gelu_follows) {
      launch_gelu(stream, p.dtype, p.inner, p.out, kind.m * kind.n, kind.epilogue == Epilogue::gelu_slope);
    }
  }
};

Matmul::Matmul(cudaStream_t stream, MatmulOptions const& options) : state_{std::make_unique<State>()} {
  state_->stream = stream;
  state_->options = options;
  expect_done(cublasLtCreate(state_->library.address()), "cublasLtCreate");
  expect_done(cublasLtMatmulPreferenceCreate(state_->preference.address()), "cublasLtMatmulPreferenceCreate");
  auto const prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto const& value) {
    expect_done(cublasLtMatmulPreferenceSetAttribute(state_->preference.get(), attribute, &value, sizeof(value)),
                "cublasLtMatmulPreferenceSetAttribute");
  };
  state_->workspace.resize(1, static_cast<std::int64_t>(workspace_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Parts of a sum that is split are added in fp32, in order, behind the product.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
}

Matmul::~Matmul() = default;

void Matmul::operator()(Product const& product) {
  auto const kind = kind_of(product);
  state_->run(product, kind, state_->plan_for(kind, product));
}

}  // namespace gpt::gpu
