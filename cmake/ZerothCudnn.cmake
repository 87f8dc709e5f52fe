# SPDX-License-Identifier: Apache-2.0
# zeroth_cudnn: headers of cuDNN and cudnn-frontend for train_gpt's attention on GPUs, if both are there. libcudnn is not
# linked: it is loaded when it is needed, from where it was found, and if that fails by its name. Python's packages
# nvidia-cudnn-cu13 and nvidia-cudnn-frontend have all of it; their folder, site-packages, belongs into CMAKE_PREFIX_PATH.
option(ZEROTH_ENABLE_CUDNN "Let train_gpt compute attention by cuDNN, if it is found" ON)
if(NOT ZEROTH_ENABLE_CUDNN OR TARGET zeroth_cudnn)
  return()
endif()
find_path(ZEROTH_CUDNN_FRONTEND_HEADERS cudnn_frontend.h DOC "Folder of cudnn_frontend.h")
find_path(ZEROTH_CUDNN_HEADERS cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${ZEROTH_CUDA_INCLUDE}
          PATH_SUFFIXES nvidia/cudnn/include DOC "Folder of cudnn.h")
# Python's package has the library under its full name only.
find_library(ZEROTH_CUDNN_LIBRARY NAMES libcudnn.so.9 cudnn NAMES_PER_DIR HINTS ${ZEROTH_CUDNN_HEADERS}/../lib64 ${ZEROTH_CUDNN_HEADERS}/../lib
             DOC "libcudnn")
mark_as_advanced(ZEROTH_CUDNN_FRONTEND_HEADERS ZEROTH_CUDNN_HEADERS ZEROTH_CUDNN_LIBRARY)
if(NOT ZEROTH_CUDNN_FRONTEND_HEADERS OR NOT ZEROTH_CUDNN_HEADERS)
  message(STATUS "Zeroth: no headers of cuDNN and cudnn-frontend (pip's nvidia-cudnn-cu13 and nvidia-cudnn-frontend): train_gpt's "
                 "attention on GPUs is its own")
  return()
endif()
# Sets `variable` to MAJOR.MINOR as `header` defines them with `prefix`; 0.0 if it does not.
function(zeroth_version_in header prefix variable)
  set(version 0.0)
  if(EXISTS ${header})
    file(STRINGS ${header} lines REGEX "^#define ${prefix}_(MAJOR|MINOR)(_VERSION)? +[0-9]+")
    if("${lines}" MATCHES "MAJOR[_A-Z]* +([0-9]+).*MINOR[_A-Z]* +([0-9]+)")
      set(version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
    endif()
  endif()
  set(${variable} ${version} PARENT_SCOPE)
endfunction()
zeroth_version_in(${ZEROTH_CUDNN_FRONTEND_HEADERS}/cudnn_frontend_version.h CUDNN_FRONTEND frontend_version)
zeroth_version_in(${ZEROTH_CUDNN_HEADERS}/cudnn_version.h CUDNN cudnn_version)
# 9.18: as gpu/cudnn_library.hpp says. 1.32 is the first frontend that was tried.
if(cudnn_version VERSION_LESS 9.18 OR frontend_version VERSION_LESS 1.32)
  message(STATUS "Zeroth: cuDNN ${cudnn_version} in ${ZEROTH_CUDNN_HEADERS}, cudnn-frontend ${frontend_version} in "
                 "${ZEROTH_CUDNN_FRONTEND_HEADERS}; 9.18 and 1.32 are the oldest supported: train_gpt's attention on GPUs is its own")
  return()
endif()
message(STATUS "Zeroth: cuDNN ${cudnn_version} in ${ZEROTH_CUDNN_HEADERS}, cudnn-frontend ${frontend_version} in "
               "${ZEROTH_CUDNN_FRONTEND_HEADERS}")
add_library(zeroth_cudnn INTERFACE)
target_include_directories(zeroth_cudnn SYSTEM INTERFACE ${ZEROTH_CUDNN_FRONTEND_HEADERS} ${ZEROTH_CUDNN_HEADERS})
target_compile_definitions(zeroth_cudnn INTERFACE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING CUDNN_FRONTEND_SKIP_JSON_LIB)
target_link_libraries(zeroth_cudnn INTERFACE ${CMAKE_DL_LIBS})
