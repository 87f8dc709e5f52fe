// SPDX-License-Identifier: Apache-2.0
/// Products of row-major matrices, in the form that layers pass to every device's library.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include <zeroth/core/dtype.hpp>

namespace gpt {

/// A matrix to read: `rows` x `cols` in its memory layout, with rows `stride` elements apart.
struct Operand {
  void const* data;
  zeroth::Dtype dtype;
  std::int64_t rows, cols, stride;
  bool transposed = false;
};

/// A matrix to write, with the product's shape.
struct Result {
  void* data;
  zeroth::Dtype dtype;
  std::int64_t stride;
};

enum class Epilogue : std::uint8_t {
  none,
  bias,        ///< + bias, one per column
  bias_gelu,   ///< + bias, stored in `inner`; then GELU of it to `out`
  gelu_slope,  ///< times the derivative of GELU at `inner`
};
[[nodiscard]] inline bool has_gelu(Epilogue epilogue) {
  return epilogue == Epilogue::bias_gelu || epilogue == Epilogue::gelu_slope;
}

/// out = epilogue(op(a) op(b) + beta * addend), summed in fp32 (fp64 for fp64) and rounded once. The input of a GELU
/// epilogue may have been rounded before.
struct Product {
  Operand a, b;
  Result out;
  float beta = 0;
  void const* addend = nullptr;  ///< Laid out like `out`; null: the contents of `out`.
  Epilogue epilogue = Epilogue::none;
  void const* bias = nullptr;  ///< Has the type of `out`.
  void* inner = nullptr;       ///< Laid out like `out`, which then has no gaps between rows.
};

/// Everything about a product except its addresses.
struct ProductKind {
  std::int64_t m, n, k;  // of out: m x n
  std::int64_t a_stride, b_stride, out_stride;
  bool a_transposed, b_transposed, adds, adds_other;
  zeroth::Dtype factors, out;
  Epilogue epilogue;
  auto operator<=>(ProductKind const&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's own
};
/// Throws ContractError for shapes that do not fit.
[[nodiscard]] ProductKind kind_of(Product const& product);
/// "a product 8 x 8 x 8, fp32 to fp32, strides 8, 8 and 8, adding nothing, no epilogue"
[[nodiscard]] std::string describe(ProductKind const& kind);

/// Like zeroth::dtype_of, plus double, which tests use.
template <class T>
inline constexpr zeroth::Dtype math_dtype = zeroth::dtype_of<T>;
template <>
inline constexpr zeroth::Dtype math_dtype<double> = zeroth::Dtype::fp64;

/// A whole Matrix as an operand.
template <class M>
  requires requires(M const& m) { m.stride(); }
[[nodiscard]] Operand operand(M const& m) {
  return {m.data(), math_dtype<std::remove_cvref_t<decltype(*m.data())>>, m.rows(), m.cols(), m.stride()};
}
/// A parameter as an operand.
template <class View>
  requires requires(View const& view) { view.extent(1); }
[[nodiscard]] Operand operand(View const& view) {
  return {view.data(), math_dtype<std::remove_cvref_t<decltype(*view.data())>>, view.extent(0), view.extent(1),
          view.extent(1)};
}
[[nodiscard]] inline Operand transposed(Operand operand) {
  operand.transposed = !operand.transposed;
  return operand;
}
template <class M>
[[nodiscard]] Result result(M& m) {
  return {m.data(), math_dtype<std::remove_cvref_t<decltype(*m.data())>>, m.stride()};
}
/// A product that is added to a gradient, in the gradient's own memory.
template <class Gradient>
[[nodiscard]] Product contribution(Operand const& a, Operand const& b, Gradient const& gradient) {
  return {.a = a,
          .b = b,
          .out = {gradient.data(), math_dtype<std::remove_cvref_t<decltype(*gradient.data())>>, gradient.shape()[1]},
          .beta = gradient.beta()};
}

}  // namespace gpt
