// SPDX-License-Identifier: Apache-2.0
/// A library that is loaded in place of libnccl. Only its version function is called. It is complete, lacks all other
/// functions, or is old.
#include "device/nccl_functions.hpp"

#ifdef NCCL_IS_OLD
inline constexpr int version_code = 22707;
#else
inline constexpr int version_code = 99999;
#endif

extern "C" int ncclGetVersion(int* version);
int ncclGetVersion(int* version) {
  *version = version_code;
  return 0;
}

#ifdef NCCL_IS_WHOLE
#define NCCL_FUNCTION(name, function) \
  extern "C" int function();          \
  int function() { return 0; }
ZEROTH_NCCL_FUNCTIONS(NCCL_FUNCTION)
#endif
