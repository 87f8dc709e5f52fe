// SPDX-License-Identifier: Apache-2.0
/// A library that is loaded in place of libcublasLt: complete, or with only one of its functions.
#include "device/cublas_lt_functions.hpp"

#define CUBLAS_LT_FUNCTION(name, function) \
  extern "C" int function();               \
  int function() { return 0; }

#ifdef CUBLAS_LT_IS_WHOLE
ZEROTH_CUBLAS_LT_FUNCTIONS(CUBLAS_LT_FUNCTION)
#else
CUBLAS_LT_FUNCTION(status_name, cublasLtGetStatusName)
#endif
