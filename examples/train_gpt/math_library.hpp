// SPDX-License-Identifier: Apache-2.0
/// The choice of libraries for matrix products and attention.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace gpt::gpu {
class Algorithms;
}

namespace gpt {

enum class MathLibrary : std::uint8_t {
  automatic,  ///< The fastest on this processor.
  eigen,
  onednn,
  cublaslt,  ///< On GPUs; cannot be requested.
};

/// What computes attention on GPUs.
enum class AttentionLibrary : std::uint8_t { own, cudnn };
inline constexpr int head_unit_of_cudnn = 8;  ///< It accepts heads whose width is a multiple of it.

struct MathChoice {
  MathLibrary library;
  std::string name;  ///< "oneDNN 2.6.3 for avx512_core_bf16": printed, recorded, and compared between ranks.
  std::shared_ptr<gpu::Algorithms const> algorithms = nullptr;  ///< Null: cuBLASLt chooses.
};

}  // namespace gpt
