# SPDX-License-Identifier: Apache-2.0
# Programs are linked by lld where it is installed: some three hundred of them are, tests above all, and GNU ld takes three
# times as long for each. What nvcc links stays with the linker that it knows.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=lld ZEROTH_HAS_LLD)
if(ZEROTH_HAS_LLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
endif()

# Clang links ThreadSanitizer into each program. Shared, it sees what shared libraries lock, and tests can put a function of
# their own before one of its: an operator new that counts, a pthread_create that fails. Clang 14 does not start the shared
# one before other libraries; GCC's libtsan_preinit.o does.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_FLAGS MATCHES "fsanitize=thread")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-runtime-dir OUTPUT_VARIABLE sanitizer_folder
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libtsan_preinit.o OUTPUT_VARIABLE sanitizer_start
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT EXISTS ${sanitizer_start})
    message(FATAL_ERROR "Zeroth: ThreadSanitizer with ${CMAKE_CXX_COMPILER} needs GCC's libtsan_preinit.o, and it was not found: "
                        "install g++, or build this preset with g++")
  endif()
  add_link_options(-shared-libsan -Wl,-rpath,${sanitizer_folder}
                   "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${sanitizer_start}>")
endif()
