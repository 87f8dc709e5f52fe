// SPDX-License-Identifier: Apache-2.0
/// The cuBLASLt functions that this library calls: their names here, and in cuBLASLt.
#pragma once

#define ZEROTH_CUBLAS_LT_FUNCTIONS(FUNCTION)                     \
  FUNCTION(status_name, cublasLtGetStatusName)                   \
  FUNCTION(create, cublasLtCreate)                               \
  FUNCTION(destroy, cublasLtDestroy)                             \
  FUNCTION(create_description, cublasLtMatmulDescCreate)         \
  FUNCTION(destroy_description, cublasLtMatmulDescDestroy)       \
  FUNCTION(set_description, cublasLtMatmulDescSetAttribute)      \
  FUNCTION(create_layout, cublasLtMatrixLayoutCreate)            \
  FUNCTION(destroy_layout, cublasLtMatrixLayoutDestroy)          \
  FUNCTION(create_preference, cublasLtMatmulPreferenceCreate)    \
  FUNCTION(destroy_preference, cublasLtMatmulPreferenceDestroy)  \
  FUNCTION(set_preference, cublasLtMatmulPreferenceSetAttribute) \
  FUNCTION(choose, cublasLtMatmulAlgoGetHeuristic)               \
  FUNCTION(multiply, cublasLtMatmul)
