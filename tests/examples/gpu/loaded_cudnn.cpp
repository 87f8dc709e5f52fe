// SPDX-License-Identifier: Apache-2.0
/// A library that is loaded in place of libcudnn, and whose functions do nothing but tell the version: whole, bare of
/// all others, or old.
#ifdef CUDNN_IS_OLD
inline constexpr unsigned long version_code = 91002;
#else
inline constexpr unsigned long version_code = 99999;
#endif

extern "C" unsigned long cudnnGetVersion();
unsigned long cudnnGetVersion() { return version_code; }

#ifdef CUDNN_IS_WHOLE
#define CUDNN_FUNCTION(function) \
  extern "C" int function();     \
  int function() { return 0; }
CUDNN_FUNCTION(cudnnCreate)
CUDNN_FUNCTION(cudnnDestroy)
CUDNN_FUNCTION(cudnnSetStream)
CUDNN_FUNCTION(cudnnGetErrorString)
#endif
