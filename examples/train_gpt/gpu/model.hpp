// SPDX-License-Identifier: Apache-2.0
/// GPT-2 on a GPU.
#pragma once
#include "gpt.hpp"
#include "gpu/block.hpp"
#include "gpu/embedding.hpp"

namespace gpt::gpu {

/// T is what activations are stored in; sums are in fp32.
template <zeroth::Element T>
struct GpuLayers {
  using Matrix = gpu::Matrix<T>;
  using Embedding = gpu::Embedding<T>;
  using Block = gpu::Block<T>;
  using Head = gpu::Head<T>;
};

template <zeroth::Element T>
using Gpt = BasicGpt<GpuLayers<T>>;

}  // namespace gpt::gpu
