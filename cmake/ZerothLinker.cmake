# SPDX-License-Identifier: Apache-2.0
# Links programs by lld if it is installed: there are about three hundred, most of them tests, and GNU ld takes three
# times as long for each. nvcc keeps its own linker.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=lld ZEROTH_HAS_LLD)
if(ZEROTH_HAS_LLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
endif()

# Clang links ThreadSanitizer into each program. The shared one also sees locks of shared libraries, and tests can
# replace its functions: by an operator new that counts, or a pthread_create that fails. Clang 14 does not start the
# shared one before other libraries; GCC's libtsan_preinit.o does.
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
