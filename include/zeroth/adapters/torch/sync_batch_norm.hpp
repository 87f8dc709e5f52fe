// SPDX-License-Identifier: Apache-2.0
/// BatchNorm over the batches of all ranks.
#pragma once
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zeroth/comm/job.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter {

namespace detail {

/// All dimensions except channels, which is dimension 1.
[[nodiscard]] inline std::vector<std::int64_t> all_but_channels(at::Tensor const& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    dims.push_back(d);
  }
  return dims;
}
/// Reshapes [C] so that it broadcasts over `input`.
[[nodiscard]] inline at::Tensor over(at::Tensor const& channels, at::Tensor const& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = channels.size(0);
  return channels.view(shape);
}
/// Sums rows of [rows, C] over the ranks, in fp64 and in rank order.
inline void sum_over_ranks(Job& job, at::Tensor& rows) {
  job.sum(std::span{rows.data_ptr<double>(), static_cast<std::size_t>(rows.numel())});
}

/// nullopt for an undefined tensor, which autograd does not accept as an input; affine(false) has such tensors.
[[nodiscard]] inline std::optional<at::Tensor> if_defined(at::Tensor const& tensor) {
  return tensor.defined() ? std::optional{tensor} : std::nullopt;
}
/// Converts the tensor to Float, if it is defined.
[[nodiscard]] inline at::Tensor in_float(at::Tensor const& tensor) {
  return tensor.defined() ? tensor.to(at::kFloat) : tensor;
}

/// Normalisation in training, and its derivative: Ioffe and Szegedy 2015, algorithm 1, over all ranks.
struct SyncNormalise : ::torch::autograd::Function<SyncNormalise> {
  static std::vector<at::Tensor> forward(::torch::autograd::AutogradContext* context, at::Tensor const& input,
                                         std::optional<at::Tensor> const& weight, std::optional<at::Tensor> const& bias,
                                         double eps, Job* job) {
    auto const x = input.to(at::kFloat);
    auto const channels = x.size(1);
    auto const count = channels == 0 ? 0 : x.numel() / channels;
    // Each rank's {elements, their sum, the sum of their squares}: these sums do not depend on how samples are divided
    // among ranks.
    auto sums = at::zeros({3, channels}, at::kDouble);
    if (count > 0) {
      auto const [variance, mean] = at::var_mean(x, all_but_channels(x), /*unbiased=*/false);
      auto const local_mean = mean.to(at::kDouble);
      sums[0].fill_(count);
      sums[1].copy_(local_mean * count);
      sums[2].copy_((variance.to(at::kDouble) + local_mean.square()) * count);
    }
    sum_over_ranks(*job, sums);
    ZEROTH_EXPECTS(channels == 0 || sums[0][0].item<double>() > 1,
                   "SyncBatchNorm: fewer than two values per channel over all ranks; training normalises by their "
                   "variance");
    auto const mean = sums[1] / sums[0];
    auto const variance = (sums[2] / sums[0] - mean.square()).clamp_min(0);
    auto const scale = (variance + eps).rsqrt().to(at::kFloat);
    auto const centre = mean.to(at::kFloat);
    auto normal = (x - over(centre, x)) * over(scale, x);
    context->save_for_backward({normal, weight.value_or(at::Tensor{}), scale});
    context->saved_data["count"] = channels == 0 ? 0.0 : sums[0][0].item<double>();
    context->saved_data["job"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(job));
    context->saved_data["type"] = input.scalar_type();
    auto output = weight ? normal * over(weight->to(at::kFloat), x) + over(bias->to(at::kFloat), x) : normal.clone();
    auto const total = sums[0].clone();
    context->mark_non_differentiable({centre, variance, total});
    return {output.to(input.scalar_type()), centre, variance, total};
  }
  static std::vector<at::Tensor> backward(::torch::autograd::AutogradContext* context,
                                          std::vector<at::Tensor> const& gradients) {
    auto const saved = context->get_saved_variables();
    auto const& normal = saved[0];
    auto const& weight = saved[1];
    auto* const job = reinterpret_cast<Job*>(static_cast<std::intptr_t>(context->saved_data["job"].toInt()));
    auto const count = context->saved_data["count"].toDouble();
    auto const gradient = gradients[0].to(at::kFloat);
    auto const dims = all_but_channels(gradient);
    auto const sum = gradient.sum(dims);
    auto const product = (gradient * normal).sum(dims);
    auto sums = at::stack({sum, product}).to(at::kDouble);
    sum_over_ranks(*job, sums);
    auto const means = (sums / count).to(at::kFloat);
    auto into = (gradient - over(means[0], gradient) - normal * over(means[1], gradient)) * over(saved[2], gradient);
    if (!weight.defined()) {
      return {into.to(context->saved_data["type"].toScalarType()), {}, {}, {}, {}};
    }
    into = into * over(weight.to(at::kFloat), gradient);
    return {into.to(context->saved_data["type"].toScalarType()),
            product.to(weight.scalar_type()),
            sum.to(weight.scalar_type()),
            {},
            {}};
  }
};

}  // namespace detail

/// Replaces torch::nn::BatchNorm1d, 2d and 3d, with the same names of parameters and buffers. Mean and variance are
/// over the batches of all ranks; each element has the same weight, so batch sizes may differ between ranks. Inputs are
/// [samples, channels, ...].
///
/// In training, forward and backward sum a few doubles per channel over the ranks, in rank order, and wait. Every rank
/// must call it equally often and in the same order, even if it has no samples. Evaluation is BatchNorm's, without
/// communication. Both compute in fp32, whatever the types of input and parameters are, and accumulate statistics in
/// fp64.
class SyncBatchNormImpl : public ::torch::nn::NormImplBase<1, SyncBatchNormImpl, ::torch::nn::BatchNormOptions> {
 public:
  /// Takes a number of channels, or torch's options. `job` must outlive it.
  SyncBatchNormImpl(Job& job, ::torch::nn::BatchNormOptions const& like) : NormImplBase{like}, job_{&job} {}
  /// Maps [samples, channels, ...] to the same shape. Collective in training. Throws ContractError for another shape,
  /// and if all ranks together have fewer than two values per channel.
  at::Tensor forward(at::Tensor const& input) {
    _check_input_dim(input);
    if (!is_training() && options.track_running_stats()) {
      return ::torch::nn::functional::detail::batch_norm(detail::in_float(input), detail::in_float(running_mean),
                                                         detail::in_float(running_var), detail::in_float(weight),
                                                         detail::in_float(bias), false, 0.0, options.eps())
          .to(input.scalar_type());
    }
    auto const outputs =
        detail::SyncNormalise::apply(input, detail::if_defined(weight), detail::if_defined(bias), options.eps(), job_);
    if (is_training() && options.track_running_stats()) {
      track(outputs[1], outputs[2], outputs[3]);
    }
    return outputs[0];
  }
  /// Prints "zeroth::torch_adapter::SyncBatchNorm(64, ...)".
  void pretty_print(std::ostream& stream) const override {
    stream << "zeroth::torch_adapter::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
  }

 protected:
  /// Requires at least two dimensions, and the number of channels in the options.
  void _check_input_dim(at::Tensor const& input) override {
    ZEROTH_EXPECTS(input.dim() >= 2 && input.size(1) == options.num_features(),
                   c10::str("SyncBatchNorm of ", options.num_features(), " channels got an input of shape ",
                            input.sizes(), "; it must be [samples, channels, ...]"));
  }

 private:
  void track(at::Tensor const& mean, at::Tensor const& variance, at::Tensor const& count) {
    at::NoGradGuard const no_grad;
    num_batches_tracked += 1;
    auto const factor = options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
    auto const unbiased = (variance * (count / (count - 1))).to(running_var.scalar_type());
    running_mean.mul_(1 - factor).add_(mean.to(running_mean.scalar_type()), factor);
    running_var.mul_(1 - factor).add_(unbiased, factor);
  }
  Job* job_;
};
/// The holder of SyncBatchNormImpl: `SyncBatchNorm norm{job, 64}`.
TORCH_MODULE(SyncBatchNorm);

}  // namespace zeroth::torch_adapter
