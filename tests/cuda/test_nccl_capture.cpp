// SPDX-License-Identifier: Apache-2.0
/// Groups of the tests' own NCCL in graphs, without the library.
#include <nccl.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/captured.hpp"
#include "support/catch.hpp"
#include "support/fake_nccl/fake_nccl.hpp"
#include "support/sanitized.hpp"

namespace zeroth::testing {
namespace {

constexpr int world = 3;
constexpr std::size_t count = 5;

/// A rank's communicators and buffers.
struct Rank {
  int rank;
  ncclComm_t one, two;
  cudaStream_t stream, side;
  float *input, *sum, *all;
  Bench& bench;
};

/// Polls until the last call of `communicator` is complete.
void complete(ncclComm_t communicator) {
  auto state = ncclInProgress;
  while (state == ncclInProgress && ncclCommGetAsyncError(communicator, &state) == ncclSuccess) {
    std::this_thread::yield();
  }
}

ncclComm_t make(ncclUniqueId id, int rank, char const* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;
  config.commName = name;
  ncclComm_t made = nullptr;
  ncclCommInitRankConfig(&made, world, id, rank, &config);
  complete(made);
  return made;
}

void all_reduce(ncclComm_t communicator, float const* from, float* to, cudaStream_t stream) {
  ncclGroupStart();
  ncclAllReduce(from, to, count, ncclFloat32, ncclSum, communicator, stream);
  ncclGroupEnd();
  complete(communicator);
}

void all_gather(Rank& mine, ncclComm_t communicator, float const* from, cudaStream_t stream) {
  ncclGroupStart();
  ncclAllGather(from, mine.all, count, ncclFloat32, communicator, stream);
  ncclGroupEnd();
  complete(communicator);
}

/// Runs `body` on a thread for each rank, and returns the results.
std::vector<std::string> on_ranks(std::function<std::string(Rank&)> const& body) {
  fake_nccl::reset();
  ncclUniqueId first{}, second{};
  ncclGetUniqueId(&first);
  ncclGetUniqueId(&second);
  std::vector<std::string> results(world);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Bench bench;
      Rank mine{rank,
                make(first, rank, "one"),
                make(second, rank, "two"),
                bench.stream(),
                bench.stream(),
                nullptr,
                nullptr,
                nullptr,
                bench};
      for (auto* const buffer : {&mine.input, &mine.sum, &mine.all}) {
        void* made = nullptr;
        cudaHostAlloc(&made, world * count * sizeof(float), cudaHostAllocDefault);
        *buffer = static_cast<float*>(made);
      }
      results[static_cast<std::size_t>(rank)] = body(mine);
      for (auto* const communicator : {mine.one, mine.two}) {
        if (communicator != nullptr) {
          ncclCommAbort(communicator);
        }
      }
      for (auto* const buffer : {mine.input, mine.sum, mine.all}) {
        cudaFreeHost(buffer);
      }
    });
  }
  threads.clear();
  return results;
}

void fill(Rank& mine, float value) { std::fill_n(mine.input, count, value); }

/// The sum of the ranks' inputs `step + rank`, gathered from all ranks.
std::string expect(Rank const& mine, int step) {
  auto const expected = static_cast<float>(world * step + world * (world - 1) / 2);
  for (std::size_t i = 0; i < world * count; ++i) {
    if (mine.all[i] != expected) {
      return "step " + std::to_string(step) + ": " + std::to_string(mine.all[i]) + ", not " + std::to_string(expected);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("groups in graphs meet those of the other ranks at each launch, between others") {
  for (unsigned const delays : {0U, 5U}) {
    fake_cuda::reset({.delays = delays});
    INFO("seed " << fake_cuda::graph_seed());
    auto const problems = on_ranks([](Rank& mine) {
      // Three steps without capture, which connect the ranks; then launches, with uncaptured groups between them.
      auto const step = [&mine] {
        all_reduce(mine.one, mine.input, mine.sum, mine.stream);
        mine.bench.order(mine.stream, mine.side);
        all_gather(mine, mine.one, mine.sum, mine.side);
        mine.bench.order(mine.side, mine.stream);
      };
      cudaGraphExec_t executable = nullptr;
      std::string problems;
      for (int number = 0; number < 12; ++number) {
        fill(mine, static_cast<float>(number + mine.rank));
        if (number == 3) {
          cudaStreamBeginCapture(mine.stream, thread_mode);
          step();
          executable = mine.bench.end_and_instantiate(mine.stream);
        }
        if (number < 3 || number % 4 == 0) {
          step();
        } else {
          cudaGraphLaunch(executable, mine.stream);
        }
        finish(mine.stream);
        problems += expect(mine, number);
      }
      return problems;
    });
    CHECK(problems == std::vector<std::string>(world));
    CHECK(fake_nccl::leftovers() == "");
    CHECK(fake_cuda::leftovers() == "");
  }
}

TEST_CASE("groups of one communicator stay in the order of capture, those of two run beside each other") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    fake_cuda::reset({.delays = seed, .graph_seed = seed});
    CAPTURE(seed);
    auto const problems = on_ranks([](Rank& mine) {
      all_reduce(mine.one, mine.input, mine.sum, mine.stream);  // connects the ranks
      all_reduce(mine.two, mine.input, mine.sum, mine.stream);
      finish(mine.stream);
      cudaStreamBeginCapture(mine.stream, thread_mode);
      mine.bench.order(mine.stream, mine.side);
      all_reduce(mine.one, mine.input, mine.sum, mine.stream);
      all_reduce(mine.two, mine.input, mine.sum + count, mine.side);
      all_reduce(mine.one, mine.input, mine.sum + 2 * count, mine.side);  // no stream orders it after the first
      mine.bench.order(mine.side, mine.stream);
      auto* const graph = mine.bench.end(mine.stream);
      if (nodes_of(graph) != 3 || edges_of(graph) != 2) {
        return std::to_string(nodes_of(graph)) + " nodes, " + std::to_string(edges_of(graph)) + " edges";
      }
      auto* const executable = mine.bench.instantiate(graph);
      std::string problems;
      for (int step = 0; step < 8; ++step) {
        fill(mine, static_cast<float>(step + mine.rank));
        cudaGraphLaunch(executable, mine.stream);
        finish(mine.stream);
        std::copy_n(mine.sum, world * count, mine.all);
        problems += expect(mine, step);
      }
      return problems;
    });
    CHECK(problems == std::vector<std::string>(world));
    for (auto const& made : fake_cuda::graphs_made()) {
      CHECK(made.edges == 1);
    }
  }
}

TEST_CASE("a group that loses its edge sends what was there before") {
  if (sanitized) {
    return;  // without the edge it is a race
  }
  fake_cuda::reset();
  auto const problems = on_ranks([](Rank& mine) {
    all_reduce(mine.one, mine.input, mine.sum, mine.stream);  // connects the ranks
    finish(mine.stream);
    cudaStreamBeginCapture(mine.stream, thread_mode);
    fake_cuda::enqueue(mine.stream, [&mine] {
      for (std::size_t i = 0; i < count; ++i) {
        mine.input[i] += 1;
      }
    });
    all_reduce(mine.one, mine.input, mine.all, mine.stream);
    if (mine.rank == 1) {
      fake_cuda::drop_edge(0);
    }
    auto* const executable = mine.bench.end_and_instantiate(mine.stream);
    fill(mine, 0);
    cudaGraphLaunch(executable, mine.stream);
    finish(mine.stream);
    return std::to_string(mine.all[0]);
  });
  CHECK(problems == std::vector<std::string>(world, std::to_string(2.0F)));
}

TEST_CASE("a communicator that is aborted lets its graph go on") {
  fake_cuda::reset();
  auto const problems = on_ranks([](Rank& mine) {
    all_reduce(mine.one, mine.input, mine.sum, mine.stream);
    finish(mine.stream);
    cudaStreamBeginCapture(mine.stream, thread_mode);
    all_reduce(mine.one, mine.input, mine.sum, mine.stream);
    auto* const executable = mine.bench.end_and_instantiate(mine.stream);
    if (mine.rank == 0) {
      return std::string{};  // and never launches it
    }
    cudaGraphLaunch(executable, mine.stream);
    bool const waits = cudaStreamQuery(mine.stream) == cudaErrorNotReady;
    ncclCommAbort(std::exchange(mine.one, nullptr));
    finish(mine.stream);
    return std::string{waits ? "" : "the group did not wait"};
  });
  CHECK(problems == std::vector<std::string>(world));
}

}  // namespace zeroth::testing
