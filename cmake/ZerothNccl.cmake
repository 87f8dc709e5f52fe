# SPDX-License-Identifier: Apache-2.0
# zeroth_find_nccl([HINTS folder...]): ZEROTH_NCCL_INCLUDE, the folder of nccl.h. Then ZEROTH_HAS_NCCL says whether that
# nccl.h will do, and ZEROTH_NCCL_PROBLEM what is wrong. ZEROTH_NCCL_LIBRARY is libnccl, if it is here: it is loaded when
# it is needed, by its name, and if that fails from there. Of Python's package, the folder nvidia/nccl belongs into
# CMAKE_PREFIX_PATH.
set(ZEROTH_OLDEST_NCCL 2.28)  # as src/device/nccl_library.hpp says

macro(zeroth_find_nccl)
  cmake_parse_arguments(zeroth_nccl "" "" "HINTS" ${ARGN})
  find_path(ZEROTH_NCCL_INCLUDE nccl.h HINTS ${zeroth_nccl_HINTS} PATHS ENV CUDA_PATH /usr/local/cuda
            PATH_SUFFIXES include DOC "Folder of nccl.h")
  # Python's package has the library under its full name only.
  find_library(ZEROTH_NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${ZEROTH_NCCL_INCLUDE}/../lib64
                                                                               ${ZEROTH_NCCL_INCLUDE}/../lib DOC "libnccl")
  set(ZEROTH_HAS_NCCL OFF)
  set(ZEROTH_NCCL_PROBLEM "")
  set(zeroth_nccl_version 0)
  if(ZEROTH_NCCL_INCLUDE)
    file(STRINGS "${ZEROTH_NCCL_INCLUDE}/nccl.h" zeroth_nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
    if("${zeroth_nccl_lines}" MATCHES "MAJOR +([0-9]+).*MINOR +([0-9]+)")
      set(zeroth_nccl_version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
    endif()
  endif()
  if(NOT ZEROTH_NCCL_INCLUDE)
    set(ZEROTH_NCCL_PROBLEM "no nccl.h (set ZEROTH_NCCL_INCLUDE)")
  elseif(zeroth_nccl_version VERSION_LESS ZEROTH_OLDEST_NCCL)
    set(ZEROTH_NCCL_PROBLEM "NCCL ${ZEROTH_OLDEST_NCCL} or newer is needed, and ${ZEROTH_NCCL_INCLUDE}/nccl.h is of \
${zeroth_nccl_version} (set ZEROTH_NCCL_INCLUDE)")
  else()
    set(ZEROTH_HAS_NCCL ON)
  endif()
endmacro()
