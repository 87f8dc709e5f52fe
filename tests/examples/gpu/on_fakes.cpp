// SPDX-License-Identifier: Apache-2.0
// The unchanged train_gpt on the CUDA runtime and the NCCL of the tests, as one of the processes that torchrun's
// variables describe. Each attempt of a job meets in its own folder.
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
  fake_cuda::reset({.gpus = 2});
  auto const folder =
      std::filesystem::path{"nccl"} / (variable("TORCHELASTIC_RESTART_COUNT") + "-" + variable("MASTER_PORT"));
  std::filesystem::create_directories(folder);
  fake_nccl::meet_in(folder);
  return train_gpt_main(argc, argv);
}
