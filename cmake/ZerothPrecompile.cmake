# SPDX-License-Identifier: Apache-2.0
# zeroth_precompile(target)
# With ZEROTH_PRECOMPILE, the headers below are parsed once for the target. Its sources must still include what they
# use: presets without the option compile them as users do.
#
# zeroth_precompile_test(target)
# The same for a test program, with Catch2: all test programs share one set of headers. With a precompiled <string>, g++
# 12 has false warnings about concatenated literals, so two warnings are off; the preset `cuda` compiles tests with
# them.
option(ZEROTH_PRECOMPILE "Precompile the standard library's headers and fmt's" OFF)

# Headers that many sources include and that load quickly. nlohmann_json is not among them: loading it takes longer than
# most sources save.
set(ZEROTH_PRECOMPILED
    <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <cstddef> <cstdint> <cstdlib> <cstring>
    <deque> <exception> <filesystem> <fstream> <functional> <iterator> <limits> <map> <memory> <mutex> <numeric> <optional>
    <random> <set> <span> <sstream> <stdexcept> <string> <string_view> <system_error> <thread> <type_traits> <utility>
    <vector> <fmt/format.h> <fmt/ranges.h>)

if(ZEROTH_PRECOMPILE AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND NOT CMAKE_CXX_COMPILER_LAUNCHER MATCHES "SLOPPINESS")
  # ccache's manual requires this, or it does not cache sources with precompiled headers. Depend mode takes the list of
  # included files from the compiler, instead of preprocessing each source first; presets with other macros would share
  # no results anyway.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=true
                                  ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# ccache's manual requires -fpch-preprocess. By default g++ collects garbage from 128 MiB on, which precompiled headers
# fill at once. With a limit of 1 GiB (in KiB here) large sources compile in nine tenths of the time, with a third more
# memory.
set(ZEROTH_PRECOMPILED_GNU_OPTIONS -fpch-preprocess --param=ggc-min-heapsize=1048576)

function(zeroth_precompile target)
  if(ZEROTH_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ZEROTH_PRECOMPILED})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${ZEROTH_PRECOMPILED_GNU_OPTIONS}>)
    endif()
  endif()
endfunction()

function(zeroth_precompile_test target)
  if(NOT ZEROTH_PRECOMPILE)
    return()
  endif()
  set(gnu_options)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(gnu_options ${ZEROTH_PRECOMPILED_GNU_OPTIONS} -Wno-stringop-overflow -Wno-array-bounds)
  endif()
  if(NOT TARGET zeroth_test_headers)
    add_library(zeroth_test_headers OBJECT ${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp)
    target_link_libraries(zeroth_test_headers PRIVATE zeroth_catch_main fmt::fmt)
    target_precompile_headers(zeroth_test_headers PRIVATE ${ZEROTH_PRECOMPILED} ${PROJECT_SOURCE_DIR}/tests/support/catch.hpp)
    target_compile_options(zeroth_test_headers PRIVATE ${ZEROTH_TEST_OPTIONS} ${gnu_options})
    zeroth_warnings(zeroth_test_headers)  # with the options of tests: -Wpedantic changes predefined macros
  endif()
  target_precompile_headers(${target} REUSE_FROM zeroth_test_headers)
  target_compile_options(${target} PRIVATE ${gnu_options})
endfunction()
