# SPDX-License-Identifier: Apache-2.0
# Warnings for our own code; its users do not get them.
function(zeroth_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
                                           -Wold-style-cast)
  if(NOT CMAKE_UNITY_BUILD)  # joined sources would see each other's names
    target_compile_options(${target} PRIVATE -Wshadow)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # it takes a joined source for a header
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  # Off if tests compile kernels for the CPU: g++ warns that an array bound from an int template parameter may be
  # negative.
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  if(NOT folder MATCHES "^tests/(bench|cuda|examples|ptx)$")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wsign-conversion>)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wno-unknown-pragmas)  # GCC's hints to its vectoriser
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651: at -O2 and above `"text" + std::string{}` seems to copy 2^63 bytes onto itself.
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_FLAGS MATCHES "fsanitize=")
    # Sanitizers insert code between a value's initialisation and its use, which makes GCC see impossible paths; its
    # manual advises against -Wmaybe-uninitialized then. Builds without sanitizers keep the warning.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(ZEROTH_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
