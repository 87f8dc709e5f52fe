// SPDX-License-Identifier: Apache-2.0
#include "device/nccl_library.hpp"

namespace zeroth::device {

Nccl const& nccl() {
  static Nccl const loaded = load_nccl({
      "libnccl.so.2",
#ifdef ZEROTH_NCCL_FILE
      ZEROTH_NCCL_FILE,
#endif
  });
  return loaded;
}

}  // namespace zeroth::device
