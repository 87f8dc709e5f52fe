# SPDX-License-Identifier: Apache-2.0
# zeroth.pc: what `pkg-config --cflags --libs zeroth` prints. A static library is never there beside a shared one, so what
# it needs is needed by whoever links it, and stands where pkg-config prints it without --static.
set(ZEROTH_PC_REQUIRES "")
set(ZEROTH_PC_LIBS "-L\${libdir} -lzeroth")
set(ZEROTH_PC_CFLAGS "-I\${includedir}")
if(ZEROTH_IS_STATIC)
  foreach(package fmt spdlog)
    if(NOT ZEROTH_${package}_HEADERS)  # headers alone leave nothing to link
      list(APPEND ZEROTH_PC_REQUIRES ${package})
    endif()
  endforeach()
  if(MPI_CXX_FOUND)
    foreach(library IN LISTS MPI_CXX_LIBRARIES)
      string(APPEND ZEROTH_PC_LIBS " ${library}")  # the MPI that this library was built with, and no other
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
# From where the file lies, so that the tree may be moved.
file(RELATIVE_PATH ZEROTH_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ZEROTH_PC_PREFIX "${ZEROTH_PC_PREFIX}")
configure_file(cmake/zeroth.pc.in ${PROJECT_BINARY_DIR}/zeroth.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/zeroth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
