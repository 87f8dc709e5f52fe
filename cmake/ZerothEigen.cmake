# SPDX-License-Identifier: Apache-2.0
# zeroth_eigen: the math of examples and benchmarks, compiled for this machine (AVX-512 makes it several times as fast).
# The library itself does not need Eigen: its kernels choose their instructions at run time.
zeroth_dependency(Eigen3 VERSION 3.4 NO_MODULE TARGET Eigen3::Eigen HEADER Eigen/Core SUFFIXES eigen3)
add_library(zeroth_eigen INTERFACE)
target_link_libraries(zeroth_eigen INTERFACE Eigen3::Eigen)
# One compute thread per rank, since ranks already use all cores.
target_compile_definitions(zeroth_eigen INTERFACE EIGEN_DONT_PARALLELIZE)
target_compile_options(zeroth_eigen INTERFACE -march=native)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105593: it reports its own AVX-512 intrinsics, which start from an undefined register, as uninitialised.
  target_compile_options(zeroth_eigen INTERFACE -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
if(ZEROTH_EIGEN_BLAS)
  set(BLA_VENDOR OpenBLAS)
  find_package(BLAS REQUIRED)
  target_compile_definitions(zeroth_eigen INTERFACE EIGEN_USE_BLAS)
  target_link_libraries(zeroth_eigen INTERFACE BLAS::BLAS)
  target_sources(zeroth_eigen INTERFACE "${CMAKE_CURRENT_LIST_DIR}/one_blas_thread.cpp")
endif()
