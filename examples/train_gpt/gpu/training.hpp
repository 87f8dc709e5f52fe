// SPDX-License-Identifier: Apache-2.0
/// The parts of train() for a GPU.
#pragma once
#include "gpu/choice.hpp"
#include "gpu/cudnn_attention.hpp"
#include "gpu/micro_steps.hpp"
#include "gpu/recorded_steps.hpp"

namespace gpt::gpu {

/// The `Where` of train() for a GPU.
struct OnGpu {
  static constexpr auto kind = zeroth::DeviceKind::cuda;
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using MicroSteps = gpu::MicroSteps<T, G>;
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using RecordedSteps = gpu::RecordedSteps<T, G>;

  /// Collective. Loads cuDNN if attention is to use it.
  static MathChoice choose(zeroth::Job& job, Options const& options, zeroth::Dtype /*compute*/) {
    return gpu::choose(job, options.algorithms,
                       options.attention == AttentionLibrary::cudnn ? load_cudnn_attention() : std::string{});
  }
  static zeroth::Config const& with_products(zeroth::Config const& config, MathChoice const& /*choice*/,
                                             zeroth::Dtype /*compute*/) {
    return config;
  }
};

}  // namespace gpt::gpu
