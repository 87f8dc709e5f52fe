# SPDX-License-Identifier: Apache-2.0
# Writes zeroth.pc, for `pkg-config --cflags --libs zeroth`. The library is installed either static or shared.
# Dependencies of a static one are listed where pkg-config prints them without --static, since every user must link
# them.
set(ZEROTH_PC_REQUIRES "")
set(ZEROTH_PC_LIBS "-L\${libdir} -lzeroth")
set(ZEROTH_PC_CFLAGS "-I\${includedir}")
if(ZEROTH_IS_STATIC)
  foreach(package fmt spdlog)
    if(NOT ZEROTH_${package}_HEADERS)  # packages that are headers only have nothing to link
      list(APPEND ZEROTH_PC_REQUIRES ${package})
    endif()
  endforeach()
  if(MPI_CXX_FOUND)
    foreach(library IN LISTS MPI_CXX_LIBRARIES)
      string(APPEND ZEROTH_PC_LIBS " ${library}")  # exactly the MPI that this library was built with
    endforeach()
  endif()
  if(ZEROTH_ENABLE_CUDA)
    string(APPEND ZEROTH_PC_LIBS " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
  endif()
  string(APPEND ZEROTH_PC_LIBS " ${CMAKE_THREAD_LIBS_INIT}")
  if(CMAKE_DL_LIBS)
    string(APPEND ZEROTH_PC_LIBS " -l${CMAKE_DL_LIBS}")
  endif()
else()
  string(APPEND ZEROTH_PC_CFLAGS " -DZEROTH_SHARED")
endif()
list(JOIN ZEROTH_PC_REQUIRES ", " ZEROTH_PC_REQUIRES)
# Paths are relative to this file, so that the tree may be moved.
file(RELATIVE_PATH ZEROTH_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ZEROTH_PC_PREFIX "${ZEROTH_PC_PREFIX}")
configure_file(cmake/zeroth.pc.in ${PROJECT_BINARY_DIR}/zeroth.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/zeroth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
