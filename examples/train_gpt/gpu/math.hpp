// SPDX-License-Identifier: Apache-2.0
/// What train() computes micro-steps with on a GPU.
#pragma once
#include <zeroth/adapters/cuda.hpp>

#include "gpu/batch_upload.hpp"
#include "gpu/model.hpp"
#include "options.hpp"

namespace gpt::gpu {

template <zeroth::Element T, zeroth::GradientOf<T> G>
class GpuMath {
 public:
  /// On the engine's compute stream.
  GpuMath(zeroth::Engine<T, G>& engine, zeroth::Model const& /*model*/, GptParams const& params, Options const& options,
          std::int64_t micro_steps)
      : gpt_{params, options.recompute ? Recompute::on : Recompute::off},
        gpu_{zeroth::cuda_stream(engine), {.tf32 = options.tf32}},
        // step() gives the report of the step before: the GPU is less than two steps behind.
        upload_{engine.micro_batch() * params.shape.context, params.shape.vocabulary, 2 * micro_steps},
        workspace_{gpt_.workspace()} {}

  /// Forward and backward.
  void micro_step(zeroth::MicroStep<T, G>& micro, Batch const& batch) {
    GpuPass pass{micro, gpu_};
    auto const uploaded = upload_.enqueue(batch, gpu_.stream());
    auto const loss = gpt_.forward(pass, uploaded, workspace_);
    gpt_.backward(pass, uploaded, workspace_, micro.report_loss(loss));
  }

 private:
  Gpt<T> gpt_;
  Gpu gpu_;
  BatchUpload upload_;
  typename Gpt<T>::Workspace workspace_;
};

/// What train() takes.
struct OnGpu {
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using Math = GpuMath<T, G>;
};

}  // namespace gpt::gpu
