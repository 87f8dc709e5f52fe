// SPDX-License-Identifier: Apache-2.0
/// Runs train()'s micro-steps on a GPU.
#pragma once
#include <optional>

#include <zeroth/adapters/cuda.hpp>
#include <zeroth/parallel/tensor.hpp>

#include "gpt.hpp"
#include "gpu/batch_upload.hpp"
#include "gpu/choice.hpp"
#include "gpu/gpu.hpp"
#include "math_library.hpp"
#include "options.hpp"

namespace gpt::gpu {

template <zeroth::Element T, zeroth::GradientOf<T> G>
class MicroSteps {
 public:
  /// Runs on the engine's compute stream. `tensor` must outlive it. Null: no layer is divided. Without `kept` no block
  /// is recomputed.
  MicroSteps(zeroth::Engine<T, G>& engine, GptParams const& params, Options const& options, MathChoice const& choice,
             std::int64_t micro_steps, zeroth::TensorParallel* tensor = nullptr, KeptBlocks const& kept = {})
      : gpt_{params, kept, options.dropout},
        gpu_{zeroth::cuda_stream(engine), {.tf32 = options.tf32, .algorithms = choice.algorithms}, tensor},
        // step() returns the report of the previous step: the GPU is less than two steps behind.
        upload_{engine.micro_batch() * params.shape.context, params.shape.vocabulary, 2 * micro_steps},
        workspace_{gpt_.workspace()} {
    auto const rows = engine.micro_batch() * params.shape.context / (gpu_.divides_rows() ? gpu_.tensor_ranks() : 1);
    if (auto const asked = store_of(kept, params.shape, rows, sizeof(T))) {
      workspace_.store = &store_.emplace(engine, *asked);
    }
  }

  /// Forward and backward.
  void run(zeroth::MicroStep<T, G>& micro, Batch const& batch) {
    PassOn pass{gpu_, micro};
    auto const uploaded = upload_.enqueue(batch, gpu_.stream());
    auto const loss = gpt_.forward(pass, uploaded, workspace_);
    gpt_.backward(pass, uploaded, workspace_, micro.report_loss(loss));
  }

  /// Empty: cuBLASLt does not report its implementations.
  [[nodiscard]] static std::string products(bool /*all*/) { return {}; }

 private:
  Gpt<Gpu<T>> gpt_;
  Gpu<T> gpu_;
  BatchUpload upload_;
  std::optional<zeroth::ActivationStore> store_;  // outlives what is in it
  typename Gpt<Gpu<T>>::Workspace workspace_;
};

/// The `Where` of train() for a GPU.
struct OnGpu {
  static constexpr auto kind = zeroth::DeviceKind::cuda;
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using MicroSteps = gpu::MicroSteps<T, G>;

  /// Collective.
  static MathChoice choose(zeroth::Job& job, Options const& options, zeroth::Dtype /*compute*/) {
    return gpu::choose(job, options.algorithms);
  }
  static zeroth::Config const& with_products(zeroth::Config const& config, MathChoice const& /*choice*/,
                                             zeroth::Dtype /*compute*/) {
    return config;
  }
};

}  // namespace gpt::gpu
