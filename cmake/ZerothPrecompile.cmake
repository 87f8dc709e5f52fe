# SPDX-License-Identifier: Apache-2.0
# zeroth_precompile(target)
# With ZEROTH_PRECOMPILE, the headers below are parsed once for the target. Its sources include what they use all the same:
# the presets without the option compile them as users do. Tests do without: of a precompiled <string> g++ 12 warns falsely
# where literals are joined (-Wstringop-overflow, -Warray-bounds).
option(ZEROTH_PRECOMPILE "Precompile the standard library's headers and fmt's" OFF)

# What many sources include and what costs little to load: nlohmann_json takes longer to load than most sources save.
set(ZEROTH_PRECOMPILED
    <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <cstddef> <cstdint> <cstdlib> <cstring>
    <deque> <exception> <filesystem> <fstream> <functional> <iterator> <limits> <map> <memory> <mutex> <numeric> <optional>
    <random> <set> <span> <sstream> <stdexcept> <string> <string_view> <system_error> <thread> <type_traits> <utility>
    <vector> <fmt/format.h> <fmt/ranges.h>)

if(ZEROTH_PRECOMPILE AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND NOT CMAKE_CXX_COMPILER_LAUNCHER MATCHES "SLOPPINESS")
  # As its manual asks for: without, sources with precompiled headers are not cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

function(zeroth_precompile target)
  if(ZEROTH_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ZEROTH_PRECOMPILED})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # ccache's manual, again
    endif()
  endif()
endfunction()
