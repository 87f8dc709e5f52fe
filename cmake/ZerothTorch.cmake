# SPDX-License-Identifier: Apache-2.0
# zeroth_find_torch() makes the target zeroth::torch: zeroth::zeroth with libtorch's headers and its libraries for the
# CPU, torch_cpu and c10. Sets Zeroth_torch_VERSION. The adapter rejects GPUs, so this suffices, and avoids the CUDA
# toolkit that TorchConfig.cmake requires if the wheel is built for CUDA. If a program has called find_package(Torch)
# itself, its target `torch` is used instead. libtorch is searched in Torch_DIR, and in CMAKE_PREFIX_PATH as
#   python3 -c 'import torch; print(torch.utils.cmake_prefix_path)'
# prints it. The library's own build and its package both use this file.
set(ZEROTH_OLDEST_TORCH 2.13)
function(zeroth_find_torch)
  find_path(ZEROTH_TORCH_CONFIG TorchConfig.cmake HINTS ${Torch_DIR} ${CMAKE_PREFIX_PATH} PATH_SUFFIXES Torch share/cmake/Torch
            NO_DEFAULT_PATH DOC "Folder of TorchConfig.cmake")
  set(Zeroth_torch_FOUND OFF PARENT_SCOPE)
  if(NOT ZEROTH_TORCH_CONFIG)
    set(Zeroth_torch_PROBLEM "no TorchConfig.cmake in Torch_DIR or CMAKE_PREFIX_PATH" PARENT_SCOPE)
    return()
  endif()
  set(PACKAGE_FIND_VERSION 0)
  include(${ZEROTH_TORCH_CONFIG}/TorchConfigVersion.cmake)
  set(Zeroth_torch_VERSION ${PACKAGE_VERSION} PARENT_SCOPE)
  if(PACKAGE_VERSION VERSION_LESS ZEROTH_OLDEST_TORCH)
    set(Zeroth_torch_PROBLEM "libtorch ${PACKAGE_VERSION} in ${ZEROTH_TORCH_CONFIG} is older than ${ZEROTH_OLDEST_TORCH}, the oldest "
                             "that was tried" PARENT_SCOPE)
    return()
  endif()
  cmake_path(SET prefix NORMALIZE "${ZEROTH_TORCH_CONFIG}/../../..")
  if(NOT TARGET zeroth::torch)
    add_library(zeroth::torch INTERFACE IMPORTED GLOBAL)
    target_include_directories(zeroth::torch SYSTEM INTERFACE ${prefix}/include ${prefix}/include/torch/csrc/api/include)
    target_link_libraries(zeroth::torch INTERFACE zeroth::zeroth)
    if(TARGET torch)
      target_link_libraries(zeroth::torch INTERFACE torch)
    else()
      target_link_libraries(zeroth::torch INTERFACE ${prefix}/lib/libtorch_cpu.so ${prefix}/lib/libc10.so)
    endif()
  endif()
  set(Zeroth_torch_FOUND ON PARENT_SCOPE)
endfunction()
