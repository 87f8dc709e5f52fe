// SPDX-License-Identifier: Apache-2.0
/// Runs train()'s micro-steps on a GPU.
#pragma once
#include <memory>
#include <optional>

#include <zeroth/adapters/cuda.hpp>
#include <zeroth/parallel/tensor.hpp>

#include "gpt.hpp"
#include "gpu/batch_upload.hpp"
#include "gpu/gpu.hpp"
#include "math_library.hpp"
#include "options.hpp"

namespace gpt::gpu {

template <zeroth::Element T, zeroth::GradientOf<T> G>
class MicroSteps {
 public:
  /// Runs on the engine's compute stream. `tensor` must outlive it; if it is null, no layer is divided. Without `kept`
  /// no block is recomputed.
  MicroSteps(zeroth::Engine<T, G>& engine, GptParams const& params, Options const& options, MathChoice const& choice,
             zeroth::Settings const& settings, zeroth::TensorParallel* tensor = nullptr, KeptBlocks const& kept = {})
      : gpt_{params, kept, options.dropout},
        gpu_{zeroth::cuda_stream(engine),
             {.tf32 = options.tf32, .algorithms = choice.algorithms},
             tensor,
             attention_of(engine, params.shape, options, tensor)},
        upload_{engine.micro_batch() * params.shape.context, params.shape.vocabulary, settings.batch.accumulation},
        workspace_{gpt_.workspace()},
        draws_{options.dropout > 0},
        waits_for_scale_{settings.delayed_update} {
    auto const rows = engine.micro_batch() * params.shape.context / (gpu_.divides_rows() ? gpu_.tensor_ranks() : 1);
    if (auto const asked = store_of(kept, params.shape, rows, sizeof(T))) {
      workspace_.store = &store_.emplace(engine, *asked);
    }
  }

  /// Forward and backward.
  void run(zeroth::MicroStep<T, G>& micro, Batch const& batch) { run(micro, upload(batch)); }
  /// Uploads a step's next micro-batch. Valid until the same micro-batch of the next step is uploaded.
  [[nodiscard]] DeviceBatch upload(Batch const& batch) { return upload_.enqueue(batch, gpu_.stream()); }
  void run(zeroth::MicroStep<T, G>& micro, DeviceBatch const& batch) {
    PassOn pass{gpu_, micro, draws_};
    auto const loss = gpt_.forward(pass, batch, workspace_);
    gpt_.backward(pass, batch, workspace_, seed_of(micro, loss));
  }

  /// Empty: cuBLASLt does not report its implementations.
  [[nodiscard]] static std::string products(bool /*all*/) { return {}; }

 private:
  /// Returns null if own kernels compute attention.
  [[nodiscard]] static std::unique_ptr<CudnnAttention> attention_of(zeroth::Engine<T, G>& engine, Shape const& shape,
                                                                    Options const& options,
                                                                    zeroth::TensorParallel const* tensor) {
    if (options.attention == AttentionLibrary::own) {
      return nullptr;
    }
    auto const heads = shape.heads / (tensor != nullptr ? tensor->ranks() : 1);
    CudnnShape const plans{zeroth::dtype_of<T>,
                           engine.micro_batch(),
                           {.count = heads, .width = shape.channels / shape.heads, .context = shape.context}};
    return std::make_unique<CudnnAttention>(zeroth::cuda_stream(engine), plans);
  }
  /// The GPU reads the loss scale, for which the host would have to wait. Delayed updates do not allow that.
  [[nodiscard]] Seed seed_of(zeroth::MicroStep<T, G>& micro, zeroth::DeviceLoss loss) const {
    if (waits_for_scale_) {
      return {micro.report_loss(loss)};
    }
    auto const seed = micro.report_loss_on_device(loss);
    return {seed.weight, seed.prescale, seed.loss_scale};
  }

  Gpt<Gpu<T>> gpt_;
  Gpu<T> gpu_;
  BatchUpload upload_;
  std::optional<zeroth::ActivationStore> store_;  // outlives what is in it
  typename Gpt<Gpu<T>>::Workspace workspace_;
  bool draws_, waits_for_scale_;
};

}  // namespace gpt::gpu
