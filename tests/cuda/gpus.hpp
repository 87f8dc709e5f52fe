// SPDX-License-Identifier: Apache-2.0
/// The GPUs of a test: emulated ones, or with ZEROTH_ON_GPU those of this machine.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "device/cuda_stream.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/device/cuda.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/fake_cuda.hpp"
#endif

namespace zeroth::testing {

struct Gpus {
  int count = 1;
  unsigned delays = 0;  ///< Seed of delays of work on streams, if the GPUs are simulated; 0: no delays.
};

#ifdef ZEROTH_ON_GPU
inline void begin_on(Gpus const& /*gpus*/) {}
[[nodiscard]] inline bool are_there(int count) { return device::cuda_device_count() >= count; }
[[nodiscard]] inline std::string left_on_gpus() { return {}; }
#else
inline void begin_on(Gpus const& gpus) { fake_cuda::reset({.gpus = gpus.count, .delays = gpus.delays}); }
[[nodiscard]] inline bool are_there(int /*count*/) { return true; }
/// Describes objects that were not freed.
[[nodiscard]] inline std::string left_on_gpus() { return fake_cuda::leftovers(); }
#endif

/// `task` becomes work of a GPU's stream. It must not call CUDA, nor wait for other work: the driver may run the tasks
/// of all streams one after another.
inline void post_on_gpu(device::Stream& stream, device::Task const& task) {
  auto* const raw = device::as_cuda(stream).get();
#ifdef ZEROTH_ON_GPU
  auto owned = std::make_unique<device::Task>(task);
  auto const run = [](void* data) { (*std::unique_ptr<device::Task>{static_cast<device::Task*>(data)})(); };
  auto const error = cudaLaunchHostFunc(raw, run, owned.get());
  if (error == cudaSuccess) {
    static_cast<void>(owned.release());  // the callback owns the task now
  }
#else
  auto const error = fake_cuda::enqueue(raw, [own = task]() mutable { own(); });
#endif
  if (error != cudaSuccess) {
    throw std::runtime_error{std::string{"the test's own task: "} + cudaGetErrorString(error)};
  }
}

}  // namespace zeroth::testing
