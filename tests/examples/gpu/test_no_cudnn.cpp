// SPDX-License-Identifier: Apache-2.0
/// What train_gpt says about --attention cudnn if it was built without cuDNN's headers.
#include "gpu/cudnn_attention.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {

using Catch::Contains;

TEST_CASE("without headers of cuDNN --attention cudnn is refused, and the message says what to install") {
  auto const load = zeroth::testing::thrown<zeroth::ConfigError>([] { return load_cudnn_attention(); });
  CHECK_THAT(load, Contains("--attention cudnn: train_gpt was built without cuDNN; allowed: own. Install the headers"));
  CHECK_THAT(load, Contains("nvidia-cudnn-frontend nvidia-cudnn-cu13") && Contains("CMAKE_PREFIX_PATH"));
  CudnnShape const shape{zeroth::Dtype::bf16, 1, {.count = 1, .width = 8, .context = 8}};
  CHECK(load == zeroth::testing::thrown<zeroth::ConfigError>([&] { CudnnAttention const attention{nullptr, shape}; }));
}

}  // namespace gpt::gpu
