// SPDX-License-Identifier: Apache-2.0
/// GPT-2 on the CPU.
#pragma once
#include "block.hpp"
#include "embedding.hpp"
#include "gpt.hpp"

namespace gpt {

/// S is the scalar of the math.
template <class S>
struct CpuLayers {
  using Matrix = gpt::Matrix<S>;
  using Embedding = gpt::Embedding<S>;
  using Block = gpt::Block<S>;
  using Head = gpt::Head<S>;
};

/// Its Pass gives a Parameters<S> for forward and a Gradients<S> for backward.
template <class S>
using Gpt = BasicGpt<CpuLayers<S>>;

}  // namespace gpt
