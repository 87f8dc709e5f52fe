// SPDX-License-Identifier: Apache-2.0
#include "product.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include <zeroth/core/error.hpp>

namespace gpt {

ProductKind kind_of(Product const& p) {
  auto const [m, k] = p.a.transposed ? std::pair{p.a.cols, p.a.rows} : std::pair{p.a.rows, p.a.cols};
  auto const [k_of_b, n] = p.b.transposed ? std::pair{p.b.cols, p.b.rows} : std::pair{p.b.rows, p.b.cols};
  ZEROTH_EXPECTS(
      k == k_of_b && m > 0 && n > 0 && k > 0 && p.a.dtype == p.b.dtype,
      fmt::format("matmul: {} x {} {} times {} x {} {}", m, k, name_of(p.a.dtype), k_of_b, n, name_of(p.b.dtype)));
  ZEROTH_EXPECTS((p.beta != 0) || p.addend == nullptr, "matmul: an addend without beta");
  ZEROTH_EXPECTS(
      p.a.stride >= p.a.cols && p.b.stride >= p.b.cols && p.out.stride >= n,
      fmt::format("matmul: strides {}, {} and {} of matrices with {}, {} and {} columns: rows must not overlap",
                  p.a.stride, p.b.stride, p.out.stride, p.a.cols, p.b.cols, n));
  ZEROTH_EXPECTS(!has_gelu(p.epilogue) || p.out.stride == n,
                 fmt::format("matmul: {} columns with stride {}: GELU needs rows without gaps", n, p.out.stride));
  return {.m = m,
          .n = n,
          .k = k,
          .a_stride = p.a.stride,
          .b_stride = p.b.stride,
          .out_stride = p.out.stride,
          .a_transposed = p.a.transposed,
          .b_transposed = p.b.transposed,
          .adds = p.beta != 0,
          .adds_other = p.addend != nullptr,
          .factors = p.a.dtype,
          .out = p.out.dtype,
          .epilogue = p.epilogue};
}

std::string describe(ProductKind const& kind) {
  constexpr std::array epilogues = {"no epilogue", "bias", "bias and GELU", "GELU's slope"};
  return fmt::format("a product {} x {} x {}, {} to {}, strides {}{}, {}{} and {}, {}, {}", kind.m, kind.n, kind.k,
                     name_of(kind.factors), name_of(kind.out), kind.a_stride, kind.a_transposed ? " (transposed)" : "",
                     kind.b_stride, kind.b_transposed ? " (transposed)" : "", kind.out_stride,
                     !kind.adds        ? "adding nothing"
                     : kind.adds_other ? "adding another matrix"
                                       : "adding to what is there",
                     epilogues.at(static_cast<std::size_t>(kind.epilogue)));
}

}  // namespace gpt
