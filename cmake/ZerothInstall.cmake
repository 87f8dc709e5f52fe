# The package that find_package(Zeroth) finds: in the install tree and, for those who build beside us, in the build tree.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Zeroth)

get_target_property(zeroth_type zeroth TYPE)
if(zeroth_type STREQUAL "STATIC_LIBRARY")
  set(ZEROTH_IS_STATIC ON)  # then those who link it link what it links
else()
  set(ZEROTH_IS_STATIC OFF)
endif()
if(MPI_CXX_FOUND)
  set(ZEROTH_HAS_MPI ON)
else()
  set(ZEROTH_HAS_MPI OFF)
endif()

configure_package_config_file(cmake/ZerothConfig.cmake.in ${PROJECT_BINARY_DIR}/ZerothConfig.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ZerothConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS zeroth EXPORT ZerothTargets FILE_SET HEADERS)
if(ZEROTH_BUILD_TOOLS)
  install(TARGETS zeroth_tool)
endif()
install(EXPORT ZerothTargets NAMESPACE zeroth:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/ZerothConfig.cmake ${PROJECT_BINARY_DIR}/ZerothConfigVersion.cmake
        DESTINATION ${package_dir})
export(EXPORT ZerothTargets NAMESPACE zeroth:: FILE ${PROJECT_BINARY_DIR}/ZerothTargets.cmake)
