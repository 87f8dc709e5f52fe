// SPDX-License-Identifier: Apache-2.0
/// Instructions that the lanes of a warp execute together.
#pragma once
#include <string>

#include "support/ptx/kernel.hpp"

namespace zeroth::testing::ptx {

/// `opcode` is shfl.sync.down.b32 or shfl.sync.bfly.b32. `to`: value and predicate; `from`: value, distance, clamp,
/// lanes.
[[nodiscard]] Execute execute_shuffle(std::string const& opcode);
/// `opcode` is ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16. `from`: the address.
[[nodiscard]] Execute execute_load_matrix(std::string const& opcode);
/// `opcode` is mma.sync.aligned.m16n8k16.row.col.f32.T.T.f32, T bf16 or f16. `from`: four of A, two of B, four of C.
[[nodiscard]] Execute execute_matrix_product(std::string const& opcode);

}  // namespace zeroth::testing::ptx
