# SPDX-License-Identifier: Apache-2.0
# The package for find_package(Zeroth) and pkg-config, in the install tree and in the build tree. Components for `cmake
# --install --component`: runtime (a shared library, the licence), devel (headers, the library to link, the package),
# tools (zeroth), doc (documents and example stage files).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Zeroth)

if(zeroth_type STREQUAL "STATIC_LIBRARY")
  set(ZEROTH_IS_STATIC ON)  # then its users link its dependencies
else()
  set(ZEROTH_IS_STATIC OFF)
endif()
foreach(part MPI NCCL)
  set(ZEROTH_HAS_${part} OFF)
endforeach()
if(MPI_CXX_FOUND)
  set(ZEROTH_HAS_MPI ON)
endif()
if(ZEROTH_ENABLE_CUDA AND NCCL_FOUND)
  set(ZEROTH_HAS_NCCL ON)
endif()

configure_package_config_file(cmake/ZerothConfig.cmake.in ${PROJECT_BINARY_DIR}/ZerothConfig.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ZerothConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(
  TARGETS zeroth EXPORT ZerothTargets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT devel
  ARCHIVE COMPONENT devel
  FILE_SET HEADERS COMPONENT devel)
install(EXPORT ZerothTargets NAMESPACE zeroth:: DESTINATION ${package_dir} COMPONENT devel)
configure_file(cmake/ZerothTorch.cmake ${PROJECT_BINARY_DIR}/ZerothTorch.cmake COPYONLY)
install(FILES ${PROJECT_BINARY_DIR}/ZerothConfig.cmake ${PROJECT_BINARY_DIR}/ZerothConfigVersion.cmake cmake/ZerothTorch.cmake
        DESTINATION ${package_dir} COMPONENT devel)
export(EXPORT ZerothTargets NAMESPACE zeroth:: FILE ${PROJECT_BINARY_DIR}/ZerothTargets.cmake)
include(ZerothPkgConfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc PATTERN measured EXCLUDE PATTERN api EXCLUDE)
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/zeroth COMPONENT doc)
if(ZEROTH_BUILD_TOOLS)
  # If only the library was built, only it is installed.
  install(TARGETS zeroth_tool COMPONENT tools OPTIONAL)
  install(CODE "if(NOT EXISTS \"$<TARGET_FILE:zeroth_tool>\")
    message(STATUS \"Zeroth: the tool was not built, so it is not installed\")
  endif()" COMPONENT tools)
  set(from_help ${PROJECT_BINARY_DIR}/tools/zeroth)
  install(FILES ${from_help}/zeroth.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools OPTIONAL)
  install(FILES ${from_help}/zeroth.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME zeroth
          COMPONENT tools OPTIONAL)
  install(FILES ${from_help}/_zeroth DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools OPTIONAL)
endif()
