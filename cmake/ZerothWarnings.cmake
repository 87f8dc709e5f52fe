# SPDX-License-Identifier: Apache-2.0
# Warnings for our own code, never for those who use it.
function(zeroth_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
                                           -Wold-style-cast)
  if(NOT CMAKE_UNITY_BUILD)  # where sources are joined, one would see the names of another
    target_compile_options(${target} PRIVATE -Wshadow)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # which takes a source that is joined for a header
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  # Not where tests compile kernels for the CPU: g++ takes the bound of an array that is an int of a template for one
  # that may be negative.
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  if(NOT folder MATCHES "^tests/(cuda|examples|ptx)$")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wsign-conversion>)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wno-unknown-pragmas)  # GCC's hints to its vectoriser
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651: at -O2 and above `"text" + std::string{}` is said to copy 2^63 bytes onto itself.
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_FLAGS MATCHES "fsanitize=")
    # What a sanitizer adds between a value's start and its use makes GCC see paths that are none: its manual warns of
    # -Wmaybe-uninitialized there. Builds without sanitizers keep it.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(ZEROTH_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
