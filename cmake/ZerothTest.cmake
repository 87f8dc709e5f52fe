# SPDX-License-Identifier: Apache-2.0
# zeroth_test_program(name SOURCES ... [LIBRARIES ...])
# The Catch2 program test_<name>, without a test. Includes are relative to tests/ and src/. Programs that link
# zeroth_eigen are compiled for this machine and without precompiled headers: their folders turn ZEROTH_PRECOMPILE off.
# Tests are compiled with less optimisation, which halves their compile time at best; the tested code keeps its own.
set(ZEROTH_TEST_OPTIONS -ffp-contract=off -O1)
if(CMAKE_CXX_FLAGS MATCHES "fsanitize=")
  set(ZEROTH_TEST_OPTIONS -ffp-contract=off -O0)
  if(CMAKE_CXX_FLAGS MATCHES "undefined" AND CMAKE_CXX_FLAGS MATCHES "address")
    # This check would take a quarter of tests' compile time, and AddressSanitizer also detects null pointers.
    list(APPEND ZEROTH_TEST_OPTIONS -fno-sanitize=null,alignment)
  endif()
endif()
function(zeroth_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  zeroth_compile_as_test(test_${name} ${arg_LIBRARIES})
endfunction()

# zeroth_test_objects(name SOURCES ... [LIBRARIES ...])
# Objects that several test programs share, compiled once.
function(zeroth_test_objects name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${arg_SOURCES})
  zeroth_compile_as_test(${name} ${arg_LIBRARIES})
endfunction()

function(zeroth_compile_as_test target)
  target_link_libraries(${target} PRIVATE zeroth_catch_main fmt::fmt nlohmann_json::nlohmann_json ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE ${ZEROTH_TEST_OPTIONS})
  zeroth_warnings(${target})
  zeroth_precompile_test(${target})
endfunction()

# ctest starts the tests first that took longest in earlier runs. COST tells it, in a new build, which tests take a
# minute or more, so that none of them runs alone at the end.
set(ZEROTH_LONG_TEST 100)
# Tests of faults wait for most of their time. On few processors they run one after another, while other tests compute.
cmake_host_system_information(RESULT ZEROTH_PROCESSORS QUERY NUMBER_OF_LOGICAL_CORES)

# zeroth_build_if_run(target LABELS ...)
# Removes a target from `all` if the preset's tests never start it: ZEROTH_LABELS_LEFT_OUT is the label filter of the
# preset.
set(ZEROTH_LABELS_LEFT_OUT "" CACHE STRING "Regular expression of labels whose test programs are built on request only")
function(zeroth_build_if_run target)
  cmake_parse_arguments(arg "" "" "LABELS" ${ARGN})
  foreach(label IN LISTS arg_LABELS)
    if(ZEROTH_LABELS_LEFT_OUT AND label MATCHES "${ZEROTH_LABELS_LEFT_OUT}")
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endforeach()
endfunction()

# zeroth_test(name SOURCES a.cpp b.cpp [LABELS cpu slow] [ARGS ...] [LIBRARIES ...] [TIMEOUT seconds])
# A Catch2 program, run as one test. With the label one_thread it fails if it starts another thread, and
# ThreadSanitizer's preset leaves it out.
function(zeroth_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LABELS;ARGS;LIBRARIES" ${ARGN})
  zeroth_left_out(${name} left_out)
  list(APPEND arg_LABELS ${left_out})
  zeroth_test_program(${name} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
  zeroth_build_if_run(test_${name} LABELS ${arg_LABELS})
  if("one_thread" IN_LIST arg_LABELS)
    target_link_libraries(test_${name} PRIVATE zeroth_one_thread)
  endif()
  add_test(NAME ${name} COMMAND test_${name} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)  # only for hangs: with a sanitizer on a busy machine a test takes minutes
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "cpu;${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  if("slow" IN_LIST arg_LABELS OR "faults" IN_LIST arg_LABELS)
    set_tests_properties(${name} PROPERTIES COST ${ZEROTH_LONG_TEST})
  endif()
  if("faults" IN_LIST arg_LABELS AND NOT "slow" IN_LIST arg_LABELS AND ZEROTH_PROCESSORS LESS 8)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK zeroth_waits)
  endif()
  # Open MPI leaks in modules that are unloaded before the leak check, so that no suppression can name them.
  if("mpi" IN_LIST arg_LABELS AND CMAKE_CXX_FLAGS MATCHES "fsanitize=address")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
  endif()
endfunction()

# zeroth_gpu_test(name SOURCES ... [LIBRARIES ...] [FEWEST_GPUS 1] [ALSO_ON_TWO])
# Like zeroth_test, on the GPUs of this machine: defines ZEROTH_ON_GPU, and is skipped if there are fewer GPUs. With
# ALSO_ON_TWO, cases with the tag [two GPUs] are a separate test. The target zeroth_gpu_tests builds all of them.
function(zeroth_gpu_test name)
  cmake_parse_arguments(arg "ALSO_ON_TWO" "FEWEST_GPUS" "SOURCES;LIBRARIES" ${ARGN})
  zeroth_test(${name} SOURCES ${arg_SOURCES} LIBRARIES zeroth_gpu_main ${arg_LIBRARIES} CUDA::cudart_static
              ARGS "~[two GPUs]" TIMEOUT 900)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(test_${name} PRIVATE ZEROTH_ON_GPU)
  set_tests_properties(${name} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu)
  if(arg_FEWEST_GPUS)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT ZEROTH_FEWEST_GPUS=${arg_FEWEST_GPUS})
  endif()
  if(arg_ALSO_ON_TWO)
    string(REGEX REPLACE "_gpu$" "_two_gpus" on_two ${name})
    add_test(NAME ${on_two} COMMAND test_${name} "[two GPUs]")
    set_tests_properties(${on_two} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu TIMEOUT 900
                         ENVIRONMENT ZEROTH_FEWEST_GPUS=2)
  endif()
  add_dependencies(zeroth_gpu_tests test_${name})
endfunction()
