// SPDX-License-Identifier: Apache-2.0
/// The library's optimizer Muon with the products of the layers.
#pragma once
#include <memory>
#include <utility>

#include <zeroth/config/config.hpp>

#include "cpu/choice.hpp"

namespace gpt::cpu {

/// A product function that uses `matmul`, on the thread that made it.
[[nodiscard]] inline zeroth::optim::Multiply muon_products(std::shared_ptr<Matmul> matmul) {
  return [matmul = std::move(matmul)](zeroth::optim::MatrixProduct const& p) {
    auto const of = [](zeroth::bf16 const* data, std::int64_t rows, std::int64_t columns, bool transposed) {
      return Operand{data, zeroth::Dtype::bf16, rows, columns, columns, transposed};
    };
    (*matmul)({.a = of(p.left, p.rows, p.inner, false),
               .b = p.transposes_right ? of(p.right, p.columns, p.inner, true) : of(p.right, p.inner, p.columns, false),
               .out = {p.sums, zeroth::Dtype::fp32, p.columns}});
  };
}

/// A config whose Muon multiplies with `choice`, if that is fast for bf16: the library's own products are faster than
/// Eigen's. The method `gram` multiplies fp16, which only the library does.
[[nodiscard]] inline zeroth::Config with_muon_products(zeroth::Config const& config, MathChoice const& choice,
                                                       zeroth::Dtype compute) {
  bool const is_fast = choice.library == MathLibrary::onednn && compute == zeroth::Dtype::bf16 &&
                       config.newton_schulz_method() == zeroth::optim::NewtonSchulzMethod::standard;
  return is_fast ? config.with(muon_products(make_matmul(choice))) : config;
}

}  // namespace gpt::cpu
