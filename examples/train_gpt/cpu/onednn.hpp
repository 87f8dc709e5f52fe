// SPDX-License-Identifier: Apache-2.0
/// oneDNN, if the program was built with it.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cpu/matmul.hpp"

namespace gpt::cpu {

struct Onednn {
  std::string version;  ///< "2.6.3"
  std::string isa;      ///< The instruction set that it generates code for, by its own name: "avx512_core_bf16".
                        ///< ONEDNN_MAX_CPU_ISA may lower it.
};
/// nullopt if the program was built without it.
[[nodiscard]] std::optional<Onednn> onednn();
/// Whether an implementation of a product, by oneDNN's name for it, is a slow fallback. With AMX these are all but
/// "brg:...": gemm:jit, used for strided rows, does not use AMX. Without AMX gemm:jit is as fast.
[[nodiscard]] bool is_slow(std::string_view implementation, std::string_view isa);

/// For fp32 and bf16. Call it only if onednn() has a value.
[[nodiscard]] std::unique_ptr<Matmul> onednn_matmul();

}  // namespace gpt::cpu
