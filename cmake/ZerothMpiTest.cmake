# SPDX-License-Identifier: Apache-2.0
# The command that starts programs under MPI in tests: a list, to which "-n <ranks> <program>" is appended. Empty if
# there is no MPI or no launcher for it.
set(ZEROTH_MPIRUN "")
if(MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
  set(ZEROTH_MPIRUN ${MPIEXEC_EXECUTABLE})
  if(version MATCHES "Open ?(MPI|RTE)")
    # Test machines are often containers (root) with fewer cores than ranks.
    list(APPEND ZEROTH_MPIRUN --allow-run-as-root --oversubscribe)
  endif()
endif()
if(NOT ZEROTH_MPIRUN)
  message(STATUS "Zeroth: no mpirun: tests across processes are left out")
endif()

# zeroth_mpi_test(name RANKS 1 2 ... [TCP 2 ...] SOURCES ... [LABELS ...] [ARGS ...] [LIBRARIES ...] [TIMEOUT seconds])
# One Catch2 program, run as one test per number of ranks; every rank must succeed. With TCP 2 3 ... it also runs
# without MPI, by `zeroth run --transport tcp`, as tests whose names have tcp instead of mpi.
function(zeroth_mpi_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "RANKS;TCP;SOURCES;LABELS;ARGS;LIBRARIES" ${ARGN})
  if(ZEROTH_BUILD_TOOLS AND arg_TCP)
    if(NOT ZEROTH_MPIRUN)
      zeroth_test_program(${name} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
    endif()
    string(REPLACE mpi tcp tcp_name ${name})
    foreach(ranks ${arg_TCP})
      add_test(NAME ${tcp_name}_${ranks} COMMAND zeroth_tool run --transport tcp --ranks ${ranks} --
                                                 $<TARGET_FILE:test_${name}> ${arg_ARGS})
      set_tests_properties(${tcp_name}_${ranks} PROPERTIES LABELS "cpu;slow;${arg_LABELS}" TIMEOUT 900 PROCESSORS 2)
    endforeach()
  endif()
  if(NOT ZEROTH_MPIRUN)
    return()
  endif()
  zeroth_left_out(${name} left_out)
  list(APPEND arg_LABELS ${left_out})
  zeroth_test_program(${name} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
  zeroth_build_if_run(test_${name} LABELS mpi ${arg_LABELS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize=" AND 3 IN_LIST arg_RANKS)
    set(arg_RANKS 3)  # under sanitizers an odd number of ranks suffices; the plain build runs all numbers
  endif()
  foreach(ranks ${arg_RANKS})
    add_test(NAME ${name}_${ranks} COMMAND ${ZEROTH_MPIRUN} -n ${ranks} $<TARGET_FILE:test_${name}> ${arg_ARGS})
    set_tests_properties(${name}_${ranks} PROPERTIES LABELS "cpu;mpi;${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS 2)
    if(CMAKE_CXX_FLAGS MATCHES "fsanitize=address")  # as in ZerothTest.cmake: Open MPI leaks
      set_tests_properties(${name}_${ranks} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
    endif()
  endforeach()
endfunction()
