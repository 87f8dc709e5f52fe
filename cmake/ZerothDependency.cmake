# SPDX-License-Identifier: Apache-2.0
# zeroth_dependency(package TARGET target HEADER file [VERSION ...] [DEFINITIONS ...] [LIBRARIES ...] [SUFFIXES ...])
# Finds a package by find_package(package). If there is none, makes `target` from the package's headers alone, which
# suffice for all packages here: from the folder of the system or of CMAKE_PREFIX_PATH that has `file`.
macro(zeroth_dependency package)
  cmake_parse_arguments(zeroth_dependency "" "TARGET;HEADER" "VERSION;DEFINITIONS;LIBRARIES;SUFFIXES" ${ARGN})
  find_package(${package} ${zeroth_dependency_VERSION} QUIET)
  if(NOT TARGET ${zeroth_dependency_TARGET})
    find_path(ZEROTH_${package}_HEADERS ${zeroth_dependency_HEADER} PATH_SUFFIXES ${zeroth_dependency_SUFFIXES}
              DOC "Folder of ${zeroth_dependency_HEADER}")
    if(NOT ZEROTH_${package}_HEADERS)
      message(FATAL_ERROR "Zeroth needs ${package} ${zeroth_dependency_VERSION}, and neither its package nor "
                          "${zeroth_dependency_HEADER} was found: install it, or name where it is in CMAKE_PREFIX_PATH")
    endif()
    add_library(${zeroth_dependency_TARGET} INTERFACE IMPORTED)
    target_include_directories(${zeroth_dependency_TARGET} SYSTEM INTERFACE ${ZEROTH_${package}_HEADERS})
    target_compile_definitions(${zeroth_dependency_TARGET} INTERFACE ${zeroth_dependency_DEFINITIONS})
    target_link_libraries(${zeroth_dependency_TARGET} INTERFACE ${zeroth_dependency_LIBRARIES})
    message(STATUS "Zeroth: ${package}: its headers in ${ZEROTH_${package}_HEADERS}")
  endif()
endmacro()
