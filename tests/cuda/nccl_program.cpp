// SPDX-License-Identifier: Apache-2.0
// One rank of a job that torchrun's variables describe, on the CUDA runtime and the NCCL of the tests: nccl_program
// DEED GPUS STAGE FOLDER JOIN_MS. Prints its outcome.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "cuda/cuda_access.hpp"
#include "cuda/nccl_training.hpp"
#include "support/fake_cuda/fake_cuda.hpp"
#include "support/fake_nccl/fake_nccl.hpp"

namespace zeroth::testing {
namespace {

void say(std::string const& words) {
  fmt::print("{}\n", words);
  std::fflush(stdout);
}

/// Whether the GPU of `rank` is in its first collective: the NCCL of the tests then has this file in a folder of a
/// communicator. Its call itself does not return before all ranks have come, so the rank cannot say it.
bool is_at_work(std::filesystem::path const& folder, int rank) {
  auto const first = "group 0 " + std::to_string(rank);
  std::filesystem::directory_iterator const communicators{folder};
  return std::any_of(begin(communicators), end(communicators),
                     [&](auto const& each) { return std::filesystem::exists(each.path() / first); });
}

/// Rank 1 throws instead of joining a sum that the others wait for, while NCCL does not return from an abort.
void wait_for_ever(Job& job, std::filesystem::path const& folder) {
  auto const device = job.make_device();
  auto const memory = device->allocate(device::Category::slots, 1 << 20);
  auto const stream = device->make_stream("test", device::Overlap::on);
  auto const all = job.communicator().split(0, job.rank(), "all");
  all->set_options({.check = false});
  auto const window = all->register_memory(*memory);
  fake_nccl::stall_abort();
  if (job.rank() == 1) {
    for (int const rank : {0, 2}) {
      while (!is_at_work(folder, rank)) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
    }
    throw std::runtime_error{"the disk is full"};
  }
  auto* const data = memory->data();
  all->all_reduce(*stream, {"test", "sum"}, data, data, 1, Dtype::fp32);
  stream->synchronize();
}

void train(Job& job, std::string const& deed, int stage) {
  TrainOptions options;
  options.access = CudaAccess::make;
  say(fmt::format("the launch order is {}", std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT")));
  do {
    say(outcome_word(train_synthetic(job, nccl_training(stage), options)));
    if (deed == "throw") {
      throw std::runtime_error{"the disk is full"};
    }
  } while (deed != "train");  // until another rank ends it
}

void act(Job& job, std::string const& deed, int stage, std::filesystem::path const& folder) {
  if (deed == "wait for ever") {
    return wait_for_ever(job, folder);
  }
  if (deed == "go on in pairs") {
    auto const pair = job.split(job.rank() / 2, job.rank(), "pair");
    return train(job, deed, stage);
  }
  train(job, deed, stage);
}

int run(char const* const* arguments) {
  std::string const deed = arguments[1];
  fake_cuda::reset({.gpus = std::atoi(arguments[2])});
  fake_nccl::meet_in(arguments[4]);
  if (deed == "never made") {
    fake_nccl::stall_making("world");
  }
  LaunchOptions const options{.transport = comm::Transport::nccl,
                              .device = DeviceKind::cuda,
                              .join_timeout = std::chrono::milliseconds{std::atoi(arguments[5])},
                              .failure_grace = std::chrono::milliseconds{500}};
  int const status = launch(options, [&](Job& job) { act(job, deed, std::atoi(arguments[3]), arguments[4]); });
  if (auto const left = fake_cuda::leftovers() + fake_nccl::leftovers(); !left.empty()) {
    say("left over: " + left);
    return 4;
  }
  return status;
}

}  // namespace
}  // namespace zeroth::testing

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("usage: nccl_program DEED GPUS STAGE FOLDER JOIN_MS\n", stderr);
    return 2;
  }
  return zeroth::testing::run(argv);
}
