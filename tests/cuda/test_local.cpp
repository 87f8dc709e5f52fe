// SPDX-License-Identifier: Apache-2.0
/// Ranks as threads on GPUs: the local communicator on streams of the CUDA device.
#include <fmt/format.h>

#include <chrono>
#include <string>

#include "comm/conformance.hpp"
#include "comm/conformance_parts.hpp"
#include "comm/local_ranks.hpp"
#include "cuda/gpus.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"

namespace zeroth::comm::conformance {
namespace {

using testing::begin_on;
using testing::Gpus;

/// Rank r on GPU r, counted modulo their number.
Platform on_gpus(int gpus) {
  return {[gpus](int rank) { return device::make_cuda_device(rank % gpus); }, testing::post_on_gpu};
}
Platform on_new_gpus(Gpus const& gpus) {
  begin_on(gpus);
  return on_gpus(gpus.count);
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

void check_conformance(int world, int gpus) {
  auto const platform = on_new_gpus({.count = gpus});
  auto cases = conformance_cases();
  std::erase_if(cases, [](auto const& each) { return each.in_opposite_order; });
  auto const problems = run_ranks(
      make_local(world), [&](Rank& rank) { return problems_of(cases, rank); }, platform);
  for (auto const& problem : problems) {
    CAPTURE(world, gpus);
    CHECK(problem == "");
  }
  CHECK(testing::left_on_gpus() == "");
}

}  // namespace

TEST_CASE("the local communicator conforms on a GPU") {
  check_conformance(GENERATE(from_range(testing::worlds({1, 2, 3, 4}, {1, 3}))), 1);
}

TEST_CASE("the local communicator conforms on two GPUs", "[two GPUs]") { check_conformance(4, 2); }

TEST_CASE("faults end every rank on GPUs") {
  int const world = GENERATE(2, 3);
  for (auto const& each : fault_cases()) {
    auto const platform = on_new_gpus({});
    auto const problems = run_ranks(
        make_local(world), [&](Rank& rank) { return problem_of(each, rank); }, platform);
    for (auto const& problem : problems) {
      CAPTURE(world, each.name);
      CHECK(problem == "");
    }
  }
}

TEST_CASE("ranks that enter two transactions in opposite order get an error at once") {
  auto const platform = on_new_gpus({});
  auto const began = std::chrono::steady_clock::now();
  auto const problems = run_ranks(
      make_local(3),
      [](Rank& rank) {
        Part first{rank.communicator, 0, rank.communicator.rank(), "first"};
        Part second{rank.communicator, 0, rank.communicator.rank(), "second"};
        auto const stream = rank.device.make_stream("test", device::Overlap::on);
        auto const data = rank.buffer<float>({1});
        bool const is_last = rank.communicator.rank() == 2;
        auto& one = is_last ? second : first;
        one.communicator().all_reduce(*stream, {"forward", is_last ? "b" : "a"}, data.data(), data.data(), 1,
                                      Dtype::fp32);
        return error_of(*stream);
      },
      platform);
  for (auto const& problem : problems) {
    CAPTURE(problem);
    CHECK(contains(problem, "wait for each other"));
    CHECK(contains(problem, "all_reduce (forward of unit 'a', 1 fp32)"));
    CHECK(contains(problem, "all_reduce (forward of unit 'b', 1 fp32)"));
    CHECK(contains(problem, "of communicator 'first'"));
    CHECK(contains(problem, "of communicator 'second'"));
  }
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::minutes{1});  // before the timeout of ten minutes
}

TEST_CASE("a transaction must be on GPUs on all ranks, or on the host on all ranks") {
  auto const platform = on_new_gpus({});
  auto const problems = run_ranks(
      make_local(2),
      [](Rank& rank) {
        auto const cpu = device::make_cpu_device();
        auto& device = rank.communicator.rank() == 0 ? rank.device : *cpu;
        auto const stream = device.make_stream("test", device::Overlap::on);
        float data = 1;
        rank.communicator.all_reduce(*stream, {"step", ""}, &data, &data, 1, Dtype::fp32);
        return error_of(*stream);
      },
      platform);
  for (auto const& problem : problems) {
    CAPTURE(problem);
    CHECK(contains(problem, "streams of different kinds"));
    CHECK(contains(problem, "rank 0 brought all_reduce (step, 1 fp32) on a GPU, but rank 1 on the host"));
  }
}

#ifndef ZEROTH_ON_GPU
TEST_CASE("more ranks than a kernel can sum are rejected before any work is enqueued") {
  auto const platform = on_new_gpus({});
  auto const problems = run_ranks(
      make_local(17),
      [](Rank& rank) {
        auto const stream = rank.device.make_stream("test", device::Overlap::on);
        return testing::thrown<ContractError>([&] { rank.communicator.submit(*stream, {"step", ""}, {}); });
      },
      platform);
  for (auto const& problem : problems) {
    CHECK(contains(problem, "communicator 'world' has 17 ranks; allowed for threads on GPUs: up to 16"));
  }
}

TEST_CASE("GPUs that cannot reach each other's memory are named") {
  testing::fake_cuda::reset({.gpus = 2, .peer_access = false});
  auto const platform = on_gpus(2);
  auto const problems = run_ranks(
      make_local(2),
      [](Rank& rank) {
        auto const stream = rank.device.make_stream("test", device::Overlap::on);
        auto const data = rank.buffer<float>({1});
        rank.communicator.all_reduce(*stream, {"step", ""}, data.data(), data.data(), 1, Dtype::fp32);
        return error_of(*stream);
      },
      platform);
  CHECK(contains(problems[0], "cuda:0 cannot reach the memory of cuda:1"));
  CHECK(contains(problems[1], "cuda:1 cannot reach the memory of cuda:0"));
}

#endif

}  // namespace zeroth::comm::conformance
