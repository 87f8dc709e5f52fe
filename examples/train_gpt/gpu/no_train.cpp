// SPDX-License-Identifier: Apache-2.0
/// Replaces train.cpp if the library is built without CUDA: launch() has rejected the job before.
#include "train_on.hpp"
#include "zeroth/core/error.hpp"

namespace gpt {

RunEnd train_on_gpu(zeroth::Job& /*job*/, Task const& /*task*/) {
  throw zeroth::ConfigError{"--device cuda: train_gpt was built without CUDA; configure with -DZEROTH_ENABLE_CUDA=ON"};
}

}  // namespace gpt
