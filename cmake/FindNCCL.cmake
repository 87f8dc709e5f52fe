# SPDX-License-Identifier: Apache-2.0
# find_package(NCCL [version]) makes NCCL::nccl, which has headers only: libnccl is loaded when it is needed, by name or
# else from NCCL_LIBRARY, its path if it was found. NCCL_VERSION is the version of nccl.h, and NCCL_INCLUDE_DIR its
# folder. For Python's package, add its folder nvidia/nccl to CMAKE_PREFIX_PATH. Users of Zeroth do not need this: no
# public header includes nccl.h.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${ZEROTH_CUDA_INCLUDE}
          PATHS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include DOC "Folder of nccl.h")
# Python's package has the library under its full name only.
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${NCCL_INCLUDE_DIR}/../lib64 ${NCCL_INCLUDE_DIR}/../lib
             DOC "libnccl")
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
set(NCCL_VERSION)
if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
  if("${nccl_lines}" MATCHES "MAJOR +([0-9]+).*MINOR +([0-9]+)")
    set(NCCL_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_VERSION VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl INTERFACE IMPORTED)
  target_include_directories(NCCL::nccl INTERFACE ${NCCL_INCLUDE_DIR})
endif()
