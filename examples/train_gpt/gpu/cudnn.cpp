// SPDX-License-Identifier: Apache-2.0
#include "gpu/cudnn_library.hpp"

namespace gpt::gpu {

Cudnn const& cudnn() {
  static Cudnn const loaded = load_cudnn({
#ifdef ZEROTH_CUDNN_FILE
      ZEROTH_CUDNN_FILE,  // first: once a libcudnn has told its version, parts of it stay loaded, also for another one
#endif
      "libcudnn.so.9",
  });
  return loaded;
}

}  // namespace gpt::gpu
