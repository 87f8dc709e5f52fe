// SPDX-License-Identifier: Apache-2.0
/// A small residual network for small images: He et al. 2016, with BatchNorm over all ranks.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <string>

#include <zeroth/adapters/torch.hpp>

namespace torch_vision {

namespace nn = torch::nn;
using zeroth::torch_adapter::SyncBatchNorm;

inline nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  return nn::Conv2d{nn::Conv2dOptions{in, out, size}.stride(stride).padding(size / 2).bias(false)};
}

struct BlockImpl : nn::Module {
  nn::Conv2d conv1, conv2, shortcut{nullptr};
  SyncBatchNorm bn1, bn2;
  BlockImpl(zeroth::Job& job, std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1{register_module("conv1", convolution(in, out, 3, stride))},
        conv2{register_module("conv2", convolution(out, out, 3, 1))},
        bn1{register_module("bn1", SyncBatchNorm{job, out})},
        bn2{register_module("bn2", SyncBatchNorm{job, out})} {
    if (in != out || stride != 1) {
      shortcut = register_module("shortcut", convolution(in, out, 1, stride));
    }
  }
  torch::Tensor forward(torch::Tensor const& x) {
    auto const y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(y + (shortcut ? shortcut(x) : x));
  }
};
TORCH_MODULE(Block);

/// Plain libtorch: the program chooses which modules are units.
struct ResNetImpl : nn::Module {
  nn::Conv2d conv{nullptr};
  SyncBatchNorm bn{nullptr};
  nn::Sequential blocks;
  nn::Linear fc{nullptr};
  ResNetImpl(zeroth::Job& job, std::int64_t channels, std::int64_t classes)
      : conv{register_module("conv", convolution(1, channels, 3, 1))},
        bn{register_module("bn", SyncBatchNorm{job, channels})},
        blocks{register_module("blocks",
                               nn::Sequential{Block{job, channels, channels, 1}, Block{job, channels, 2 * channels, 2},
                                              Block{job, 2 * channels, 4 * channels, 2}})},
        fc{register_module("fc", nn::Linear{4 * channels, classes})} {}
  torch::Tensor forward(torch::Tensor const& images) {
    auto const x = blocks->forward(torch::relu(bn(conv(images))));
    return fc(x.mean({2, 3}));
  }
};
TORCH_MODULE(ResNet);

}  // namespace torch_vision
