# SPDX-License-Identifier: Apache-2.0
# Tests that a sanitizer leaves out, because other tests run the same code under it. There they have the label left_out. Random
# jobs (tests/jobs) try the combinations of options instead. scripts/left_out.py lists the lines that no other test runs.
set(ZEROTH_LEFT_OUT "")
if(CMAKE_CXX_FLAGS MATCHES "fsanitize=")
  list(APPEND ZEROTH_LEFT_OUT
       parity parity_groups parity_tiers parity_parts parity_pipeline parity_updates parity_any_ranks parity_configs parity_mpi
       parity_servers
       engine_allocation engine_bf16_masters engine_placements engine_reference engine_traffic
       checkpoint_layouts checkpoint_pipeline checkpoint_resume_mpi
       cuda_checkpoint cuda_parity cuda_steady nccl_processes
       mpi_faults
       train_gpt_gpu_steps train_gpt_products
       wrap_a_model_zero0 wrap_a_model_zero1 wrap_a_model_zero2 wrap_a_model_zero2_accumulation wrap_a_model_zero3
       wrap_a_model_zero3_any_ranks wrap_a_model_zero3_bf16 wrap_a_model_zero3_bf16_masters)
endif()
if(CMAKE_CXX_FLAGS MATCHES "fsanitize=address")
  list(APPEND ZEROTH_LEFT_OUT local nccl_engine parity_codecs)
elseif(CMAKE_CXX_FLAGS MATCHES "fsanitize=thread")
  # These start no threads, or ranks that run the same code as other tests' ranks.
  list(APPEND ZEROTH_LEFT_OUT
       parity_matrices parity_parameter_dtypes parity_tensor
       config kernels shard
       engine_models engine_weights
       checkpoint_damage checkpoint_resume checkpoint_tensor
       train_gpt_gpu_model train_gpt_gpu_nccl
       wrap_a_model_zero2_fp16)
endif()

# zeroth_left_out(name variable): "left_out", the label of the test `name`, or "".
function(zeroth_left_out name variable)
  if(name IN_LIST ZEROTH_LEFT_OUT)
    set_property(GLOBAL APPEND PROPERTY ZEROTH_FOUND_LEFT_OUT ${name})
    set(${variable} left_out PARENT_SCOPE)
  else()
    set(${variable} "" PARENT_SCOPE)
  endif()
endfunction()

# zeroth_check_left_out(): once all tests are added, finds names here that no test has. What is not installed takes tests away,
# so that it looks only where all of it is there.
function(zeroth_check_left_out)
  get_property(found GLOBAL PROPERTY ZEROTH_FOUND_LEFT_OUT)
  set(unknown ${ZEROTH_LEFT_OUT})
  list(REMOVE_ITEM unknown ${found})
  if(unknown AND ZEROTH_MPIRUN AND TARGET test_nccl AND ZEROTH_BUILD_EXAMPLES)
    message(FATAL_ERROR "tests/left_out.cmake names tests that do not exist: ${unknown}")
  endif()
endfunction()
