# SPDX-License-Identifier: Apache-2.0
# zeroth_vectorise(a.cpp ...): sources of the library whose loops must become vector code in every optimised build.
function(zeroth_vectorise)
  set(options "")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_FLAGS MATCHES "fsanitize=")  # there it would only cost minutes
    # -O2 vectorises almost nothing. Unroll-and-jam merges a loop over buffers into the one over elements, which is then
    # not vectorised: sums over four or more ranks ran at a fifth of their speed (g++ 12).
    set(options "$<$<NOT:$<CONFIG:Debug>>:-O3>" -fno-loop-unroll-and-jam)
  endif()
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY zeroth APPEND PROPERTY COMPILE_OPTIONS "${options}")
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY zeroth PROPERTY SKIP_PRECOMPILE_HEADERS ON)  # for sources with flags of their own
endfunction()
