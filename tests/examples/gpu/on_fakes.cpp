// SPDX-License-Identifier: Apache-2.0
// The unchanged train_gpt on the CUDA runtime and the NCCL of the tests: by itself, or as one of the processes that
// torchrun's variables describe. There are two GPUs, or those that CUDA_VISIBLE_DEVICES lists. Each attempt of a job
// meets in its own folder, below the one that ZEROTH_FAKE_NCCL names, or below nccl.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/fake_cuda/fake_cuda.hpp"
#include "support/fake_nccl/fake_nccl.hpp"

int train_gpt_main(int argc, char** argv);

int main(int argc, char** argv) {
  using namespace zeroth::testing;
  auto const variable = [](char const* name) {
    auto const* const value = std::getenv(name);
    return std::string{value == nullptr ? "" : value};
  };
  auto const visible = variable("CUDA_VISIBLE_DEVICES");
  fake_cuda::reset({.gpus = visible.empty() ? 2 : 1 + static_cast<int>(std::ranges::count(visible, ','))});
  auto const below = variable("ZEROTH_FAKE_NCCL");
  auto const folder = std::filesystem::path{below.empty() ? "nccl" : below} /
                      (variable("TORCHELASTIC_RESTART_COUNT") + "-" + variable("MASTER_PORT"));
  std::filesystem::create_directories(folder);
  fake_nccl::meet_in(folder);
  return train_gpt_main(argc, argv);
}
