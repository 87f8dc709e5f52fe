// SPDX-License-Identifier: Apache-2.0
/// A program of a user with a GPU: an engine on the user's own stream.
#include <cstdio>
#include <zeroth/adapters/cuda.hpp>
#include <zeroth/device/cuda.hpp>
#include <zeroth/zeroth.hpp>

namespace {

void train(zeroth::Job& job, cudaStream_t mine) {
  job.compute_on(zeroth::stream_ref(mine));
  zeroth::Model model;
  auto const unit = model.unit("only");
  static_cast<void>(model.param(unit, "weight", {1000}, zeroth::Constant{1}));
  auto const config = zeroth::Config::from_json(R"({"zero_optimization": {"stage": 3}})");
  zeroth::Engine<float> const engine{job, model, config};
  std::printf("on the caller's stream: %s\n", zeroth::cuda_stream(engine) == mine ? "yes" : "no");
}

}  // namespace

int main() {
  int const gpus = zeroth::device::cuda_device_count();
  std::printf("built with CUDA: %s, GPUs: %d\n", zeroth::device::has_cuda() ? "yes" : "no", gpus);
  if (gpus == 0) {
    return 0;
  }
  return zeroth::launch({.device = zeroth::DeviceKind::cuda}, [](zeroth::Job& job) {
    cudaStream_t mine = nullptr;
    if (cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking) == cudaSuccess) {
      train(job, mine);
      static_cast<void>(cudaStreamDestroy(mine));
    }
  });
}
