// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_products.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "device/cublas_lt_library.hpp"
#include "device/gpu_matrices.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

void expect_done(cublasStatus_t status, std::string const& call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw SystemError{fmt::format("{}: {}", call, cublas_lt().status_name(status))};
  }
}

/// Owns a cuBLASLt object, which its member function `destroy` frees.
template <class Handle, cublasStatus_t (*CublasLt::*destroy)(Handle)>
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
      static_cast<void>((cublas_lt().*destroy)(handle_));
    }
  }
  [[nodiscard]] Handle* address() noexcept { return &handle_; }
  [[nodiscard]] Handle get() const noexcept { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Handle = Owned<cublasLtHandle_t, &CublasLt::destroy>;
using Description = Owned<cublasLtMatmulDesc_t, &CublasLt::destroy_description>;
using Layout = Owned<cublasLtMatrixLayout_t, &CublasLt::destroy_layout>;
using Preference = Owned<cublasLtMatmulPreference_t, &CublasLt::destroy_preference>;

/// The key by which algorithms are chosen.
using Shape = std::tuple<Dtype, bool, bool, std::int64_t, std::int64_t, std::int64_t>;
Shape shape_of(CudaProduct const& p) {
  return {p.dtype, p.transposes_left, p.transposes_right, p.rows, p.inner, p.columns};
}
std::string describe(CudaProduct const& p) {
  return fmt::format("a product {}{} x {} x {}{} in {}", p.transposes_left ? "transposed " : "", p.rows, p.inner,
                     p.columns, p.transposes_right ? " transposed" : "", name_of(p.dtype));
}

Layout layout_of(Dtype dtype, std::int64_t rows, std::int64_t columns, bool transposed) {
  Layout layout;
  auto const stored_rows = transposed ? columns : rows, stored_columns = transposed ? rows : columns;
  expect_done(cublas_lt().create_layout(layout.address(), dtype == Dtype::fp16 ? CUDA_R_16F : CUDA_R_16BF,
                                        static_cast<std::uint64_t>(stored_rows),
                                        static_cast<std::uint64_t>(stored_columns), stored_rows),
              "cublasLtMatrixLayoutCreate");
  return layout;
}

/// A shape as cuBLASLt describes it, and the chosen algorithm.
struct Plan {
  Description description;
  Layout left, right, result;
  cublasLtMatmulAlgo_t algorithm{};
};

Plan plan_of(CudaProduct const& p) {
  Plan plan{{},
            layout_of(p.dtype, p.rows, p.inner, p.transposes_left),
            layout_of(p.dtype, p.inner, p.columns, p.transposes_right),
            layout_of(p.dtype, p.rows, p.columns, false)};
  expect_done(cublas_lt().create_description(plan.description.address(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
              "cublasLtMatmulDescCreate");
  auto const set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    cublasOperation_t const operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    expect_done(cublas_lt().set_description(plan.description.get(), attribute, &operation, sizeof operation),
                "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.transposes_left);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.transposes_right);
  return plan;
}

}  // namespace

struct CudaProducts::State {
  Handle handle;
  Preference preference;
  std::map<Shape, Plan> plans;

  template <class Value>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, Value const& value) {
    expect_done(cublas_lt().set_preference(preference.get(), attribute, &value, sizeof value),
                "cublasLtMatmulPreferenceSetAttribute");
  }

  Plan const& plan_for(CudaProduct const& product) {
    auto const shape = shape_of(product);
    if (auto const found = plans.find(shape); found != plans.end()) {
      return found->second;
    }
    Plan plan = plan_of(product);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    auto const status = cublas_lt().choose(handle.get(), plan.description.get(), plan.left.get(), plan.right.get(),
                                           plan.result.get(), plan.result.get(), preference.get(), 1, &result, &found);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) {
      expect_done(status, "cublasLtMatmulAlgoGetHeuristic for " + describe(product));
    }
    if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS) {
      throw SystemError{
          fmt::format("cuBLASLt has no algorithm for {} (CUBLASLT_LOG_LEVEL=5 makes it say why)", describe(product))};
    }
    plan.algorithm = result.algo;
    return plans.emplace(shape, std::move(plan)).first->second;
  }
};

CudaProducts::CudaProducts() : state_{std::make_unique<State>()} {
  auto const& lt = cublas_lt();
  expect_done(lt.create(state_->handle.address()), "cublasLtCreate");
  expect_done(lt.create_preference(state_->preference.address()), "cublasLtMatmulPreferenceCreate");
  state_->prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{cublas_lt_bytes});
  // The library's default, stated because algorithms rely on it.
  for (auto const attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    state_->prefer(attribute, std::uint32_t{256});
  }
  // Unsplit sums are always allowed. Parts of a split sum are added in fp32, in order, after the product.
  state_->prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
}

CudaProducts::~CudaProducts() = default;

void CudaProducts::enqueue(cudaStream_t stream, CudaProduct const& p, std::byte* workspace) {
  auto const& plan = state_->plan_for(p);
  auto const status =
      cublas_lt().multiply(state_->handle.get(), plan.description.get(), &p.factor, p.left, plan.left.get(), p.right,
                           plan.right.get(), &p.addend_factor, p.addend, plan.result.get(), p.result, plan.result.get(),
                           &plan.algorithm, workspace, static_cast<std::size_t>(cublas_lt_bytes), stream);
  if (status != CUBLAS_STATUS_SUCCESS) {
    expect_done(status, "cublasLtMatmul for " + describe(p));
  }
}

}  // namespace zeroth::device
