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
  std::string isa;  ///< What it makes code for, as it names it: "avx512_core_bf16". ONEDNN_MAX_CPU_ISA may lower it.
};
/// None if the program was built without.
[[nodiscard]] std::optional<Onednn> onednn();
/// Whether an implementation of a product, by oneDNN's name for it, is one that it falls back to. With AMX these are
/// all but "brg:...": gemm:jit, which rows with gaps get, does not use it. Without AMX gemm:jit is as fast.
[[nodiscard]] bool is_slow(std::string_view implementation, std::string_view isa);

/// Of fp32 and bf16. Only where onednn() is something.
[[nodiscard]] std::unique_ptr<Matmul> onednn_matmul();

}  // namespace gpt::cpu
