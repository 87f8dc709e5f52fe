/// The GPUs that a test runs on: made up, or with ZEROTH_ON_GPU what is there.
#pragma once
#include <string>

#include "zeroth/device/cuda.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/fake_cuda.hpp"
#endif

namespace zeroth::testing {

struct Gpus {
  int count = 1;
  unsigned delays = 0;  ///< Of work on streams, if the GPUs are made up.
};

#ifdef ZEROTH_ON_GPU
inline void begin_on(Gpus const& /*gpus*/) {}
[[nodiscard]] inline bool are_there(int count) { return device::cuda_device_count() >= count; }
[[nodiscard]] inline std::string left_on_gpus() { return {}; }
#else
inline void begin_on(Gpus const& gpus) { fake_cuda::reset({.gpus = gpus.count, .delays = gpus.delays}); }
[[nodiscard]] inline bool are_there(int /*count*/) { return true; }
/// What was not given back.
[[nodiscard]] inline std::string left_on_gpus() { return fake_cuda::leftovers(); }
#endif

}  // namespace zeroth::testing
