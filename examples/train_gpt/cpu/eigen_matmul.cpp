// SPDX-License-Identifier: Apache-2.0
/// Eigen multiplies fp32 and fp64 only: 16-bit factors are widened before, and results are rounded once after.
#include <algorithm>
#include <cstddef>
#include <set>

#include <zeroth/adapters/eigen.hpp>
#include <zeroth/core/error.hpp>

#include "cpu/kernels/rows.hpp"
#include "cpu/matmul.hpp"
#include "cpu/memory.hpp"

namespace gpt::cpu {

namespace {

using zeroth::Dtype;

/// Rows per product: groups that stay in a core's own cache are up to a quarter faster than all rows at once.
constexpr std::int64_t panel = 256;

template <class S>
using MatrixMap = Eigen::Map<zeroth::Matrix<S> const, 0, Eigen::OuterStride<>>;
template <class S>
using ResultMap = Eigen::Map<zeroth::Matrix<S>, 0, Eigen::OuterStride<>>;

/// Calls `f` with a value of the type of `dtype`.
template <class F>
void with_element(Dtype dtype, F const& f) {
  switch (dtype) {
    case Dtype::bf16: return f(zeroth::bf16{});
    case Dtype::fp16: return f(zeroth::fp16{});
    case Dtype::fp64: return f(double{});
    default: return f(float{});
  }
}

/// Multiplies elements of type T, and sums in type S.
template <class T, class S = WideOf<T>>
class Products {
 public:
  void prepare(ProductKind const& kind) {
    if (kind.a_transposed) {
      widen_into(a_, panel, kind.m);
      widen_into(b_, panel, kind.n);
    } else {
      widen_into(a_, panel, kind.k);
      widen_into(b_, kind.b_transposed ? kind.n : kind.k, kind.b_transposed ? kind.k : kind.n);
    }
    if (kind.out != math_dtype<S>) {
      grow(sums_, (kind.a_transposed ? kind.m : std::min(panel, kind.m)) * kind.n);
    }
    row_.resize(std::max(row_.cols(), kind.n));
  }
  void multiply(Product const& p, ProductKind const& kind) {
    prepare(kind);
    kind.a_transposed ? over_inner_panels(p, kind) : over_row_panels(p, kind);
  }
  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(sizeof(S)) * (a_.count() + b_.count() + sums_.count() + row_.cols());
  }

 private:
  /// The sums of a product's rows [first, first + count): in the output if it has the type of sums, otherwise in a
  /// buffer.
  ResultMap<S> sums(Product const& p, std::int64_t first, std::int64_t count, std::int64_t columns) {
    if (p.out.dtype == math_dtype<S>) {
      return {static_cast<S*>(p.out.data) + first * p.out.stride, count, columns, Eigen::OuterStride<>{p.out.stride}};
    }
    return {sums_.data(), count, columns, Eigen::OuterStride<>{columns}};
  }
  static void grow(Matrix<S>& buffer, std::int64_t count) {
    if (buffer.count() < count) {
      buffer.resize(1, count);
    }
  }
  static void widen_into(Matrix<S>& buffer, std::int64_t rows, std::int64_t cols) {
    if constexpr (!std::same_as<T, S>) {
      grow(buffer, rows * cols);
    }
  }
  /// Rows of a factor in their memory layout, widened into `buffer` if needed.
  MatrixMap<S> factor(Operand const& from, std::int64_t first, std::int64_t count, Matrix<S>& buffer) {
    auto const* const data = static_cast<T const*>(from.data) + first * from.stride;
    if constexpr (std::same_as<T, S>) {
      return {data, count, from.cols, Eigen::OuterStride<>{from.stride}};
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        T const* const row = data + i * from.stride;
        S* const wide = buffer.data() + i * from.cols;
        for (std::int64_t j = 0; j < from.cols; ++j) {
          wide[j] = zeroth::to_float(row[j]);
        }
      }
      return {buffer.data(), count, from.cols, Eigen::OuterStride<>{from.cols}};
    }
  }

  /// out = x W, x W' : panels of x and out.
  void over_row_panels(Product const& p, ProductKind const& kind) {
    auto const b = factor(p.b, 0, p.b.rows, b_);
    for (std::int64_t first = 0; first < kind.m; first += panel) {
      auto const count = std::min(panel, kind.m - first);
      auto const a = factor(p.a, first, count, a_);
      auto out = sums(p, first, count, kind.n);
      begin(p, first, out);
      if (kind.b_transposed) {
        out.noalias() += a * b.transpose();
      } else {
        out.noalias() += a * b;
      }
      end(p, first, out);
    }
  }
  /// out = x' y: panels of x and y.
  void over_inner_panels(Product const& p, ProductKind const& kind) {
    auto out = sums(p, 0, kind.m, kind.n);
    begin(p, 0, out);
    for (std::int64_t first = 0; first < kind.k; first += panel) {
      auto const count = std::min(panel, kind.k - first);
      if (kind.b_transposed) {  // no layer uses it
        auto const a = factor(p.a, first, count, a_);
        auto columns = p.b;
        columns.data = static_cast<T const*>(p.b.data) + first;
        columns.cols = count;
        out.noalias() += a.transpose() * factor(columns, 0, p.b.rows, b_).transpose();
      } else {
        out.noalias() += factor(p.a, first, count, a_).transpose() * factor(p.b, first, count, b_);
      }
    }
    end(p, 0, out);
  }

  /// Initialises the sums with beta * addend + bias.
  void begin(Product const& p, std::int64_t first, ResultMap<S>& out) {
    with_element(p.out.dtype, [&]<class O>(O) {
      if constexpr (std::same_as<WideOf<O>, S>) {
        if (std::same_as<O, S> && p.beta != 0 && p.addend == nullptr && p.bias == nullptr) {
          return;  // the addend is there already
        }
        auto const* const addend = static_cast<O const*>(p.addend != nullptr ? p.addend : p.out.data);
        if (p.bias != nullptr) {
          bias_.resize(out.cols());
          bias_ = widened(static_cast<O const*>(p.bias), out.cols(), bias_);
        }
        for (std::int64_t i = 0; i < out.rows(); ++i) {
          auto row = out.row(i).array();
          if (p.beta != 0) {
            row = widened(addend + (first + i) * p.out.stride, out.cols(), row_);
          } else {
            row.setZero();
          }
          if (p.bias != nullptr) {
            row += bias_;
          }
        }
      }
    });
  }
  void end(Product const& p, std::int64_t first, ResultMap<S> const& out) {
    with_element(p.out.dtype, [&]<class O>(O) {
      if constexpr (std::same_as<WideOf<O>, S> && !std::same_as<O, S>) {
        for (std::int64_t i = 0; i < out.rows(); ++i) {
          store(out.row(i).array(), static_cast<O*>(p.out.data) + (first + i) * p.out.stride, row_);
        }
      }
    });
  }

  Matrix<S> a_, b_, sums_;
  RowArray<S> row_, bias_;
};

class EigenMatmul final : public Matmul {
 public:
  void prepare(ProductKind const& kind) override {
    each(kind.factors, [&](auto& products) { products.prepare(kind); });
  }
  void operator()(Product const& product) override {
    auto const kind = kind_of(product);
    ZEROTH_EXPECTS(!has_gelu(kind.epilogue) && (product.beta == 0 || product.beta == 1),
                   "matmul on a CPU: " + describe(kind) + ": GELU is a pass of its own, and beta is 0 or 1");
    each(kind.factors, [&](auto& products) { products.multiply(product, kind); });
  }
  [[nodiscard]] std::int64_t scratch_bytes() const override {
    return fp32_.bytes() + fp64_.bytes() + bf16_.bytes() + fp16_.bytes();
  }
  [[nodiscard]] std::string table() const override { return "all products: Eigen\n"; }
  [[nodiscard]] std::string slow_products() const override { return {}; }

 private:
  template <class F>
  void each(Dtype factors, F const& f) {
    switch (factors) {
      case Dtype::bf16: return f(bf16_);
      case Dtype::fp16: return f(fp16_);
      case Dtype::fp64: return f(fp64_);
      default: return f(fp32_);
    }
  }
  Products<float> fp32_;
  Products<double> fp64_;
  Products<zeroth::bf16> bf16_;
  Products<zeroth::fp16> fp16_;
};

}  // namespace

std::unique_ptr<Matmul> eigen_matmul() { return std::make_unique<EigenMatmul>(); }

}  // namespace gpt::cpu
