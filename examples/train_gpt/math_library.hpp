// SPDX-License-Identifier: Apache-2.0
/// Which library multiplies.
#pragma once
#include <cstdint>
#include <string>

namespace gpt {

enum class MathLibrary : std::uint8_t {
  automatic,  ///< What is fastest on this processor.
  eigen,
  onednn,
  cublaslt,  ///< On GPUs, and not to be asked for.
};

struct MathChoice {
  MathLibrary library;
  std::string name;  ///< "oneDNN 2.6.3 for avx512_core_bf16": as printed, recorded, and compared between ranks.
};

}  // namespace gpt
