// SPDX-License-Identifier: Apache-2.0
#include "device/cublas_lt_library.hpp"

namespace zeroth::device {

CublasLt const& cublas_lt() {
#if CUBLAS_VER_MAJOR == 12
  static CublasLt const loaded = load_cublas_lt({"libcublasLt.so.12", "libcublasLt.so.13"});
#else
  static CublasLt const loaded = load_cublas_lt({"libcublasLt.so.13", "libcublasLt.so.12"});
#endif
  return loaded;
}

}  // namespace zeroth::device
