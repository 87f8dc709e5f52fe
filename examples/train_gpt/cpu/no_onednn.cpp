// SPDX-License-Identifier: Apache-2.0
/// Replaces onednn_matmul.cpp in builds without oneDNN.
#include <zeroth/core/error.hpp>

#include "cpu/onednn.hpp"

namespace gpt::cpu {

std::optional<Onednn> onednn() { return std::nullopt; }

std::unique_ptr<Matmul> onednn_matmul() {
  throw zeroth::ContractError{"onednn_matmul(): train_gpt was built without oneDNN"};
}

}  // namespace gpt::cpu
