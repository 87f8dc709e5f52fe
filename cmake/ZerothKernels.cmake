# SPDX-License-Identifier: Apache-2.0
# Options for compiling CUDA sources, in the build for GPUs and in the tests of their PTX. CMake 3.25 does not know
# nvcc's option for C++20.

# The library's options, for the CPU's bits: only multiply-adds that are explicit in the source, IEEE division and
# square root, and subnormals.
set(ZEROTH_KERNEL_OPTIONS -std=c++20 --fmad=false --prec-div=true --prec-sqrt=true --ftz=false --expt-relaxed-constexpr
                          -Xcompiler=-Wall,-Wextra,-ffp-contract=off)
# train_gpt's.
set(ZEROTH_EXAMPLE_KERNEL_OPTIONS -std=c++20 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra)

# zeroth_ptx_objects(variable ARCHITECTURES 80 100 ... SOURCES a.cu ... OPTIONS ... INCLUDES folder ...)
# Objects whose only GPU code is uncompressed PTX of these architectures. Needs nvcc (ZEROTH_NVCC), not CMake's language
# CUDA. Each object has all architectures, because half of the time is for the host's code.
function(zeroth_ptx_objects variable)
  cmake_parse_arguments(arg "" "" "ARCHITECTURES;SOURCES;OPTIONS;INCLUDES" ${ARGN})
  list(TRANSFORM arg_INCLUDES PREPEND -I)
  list(TRANSFORM arg_ARCHITECTURES REPLACE "(.+)" "-gencode=arch=compute_\\1,code=compute_\\1" OUTPUT_VARIABLE targets)
  set(objects)
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/ptx/${name}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${ZEROTH_NVCC} -O3 -DNDEBUG ${arg_OPTIONS} ${arg_INCLUDES}
              ${targets} -Xfatbin -compress=false
              -Xcompiler=-fPIE -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "PTX: ${name}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/ptx)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()
