// SPDX-License-Identifier: Apache-2.0
/// A program's own collectives, concurrent with its compute.
#include "zeroth/comm/collectives.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <latch>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/job_exchange.hpp"
#include "comm/launch/machines.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "zeroth/comm/uneven.hpp"

namespace zeroth {
namespace {

using Catch::Matchers::Contains;
using comm::Collective;
using comm::Operation;
using testing::message_of;
using testing::messages_of;
using testing::run_job;

Collective sum_of(float* data, std::int64_t count) {
  return {Operation::all_reduce, data, data, count, Dtype::fp32, 0};
}

TEST_CASE("a started collective runs concurrently with its caller, until the caller waits") {
  std::array<float, 3> results{};
  bool done_before = true, done_after = false;
  std::latch started{1};
  auto const outcome = run_job(3, [&](Job& job) {
    Collectives beside{job, "beside"};
    float value = static_cast<float>(job.rank() + 1);
    if (job.rank() > 0) {
      started.wait();  // rank 0 has started alone, and continued
    }
    auto sum = beside.start(sum_of(&value, 1), "value");
    if (job.rank() == 0) {
      done_before = sum.done();
      started.count_down();
    }
    sum.wait();
    sum.wait();
    if (job.rank() == 0) {
      done_after = sum.done();
    }
    results[static_cast<std::size_t>(job.rank())] = value;
  });
  CHECK(messages_of(outcome) == "");
  CHECK_FALSE(done_before);
  CHECK(done_after);
  CHECK(results == std::array<float, 3>{6, 6, 6});
}

TEST_CASE("several collectives run at once, are waited for in any order, and see earlier compute work") {
  std::vector<std::string> problems(4);
  auto const outcome = run_job(4, [&](Job& job) {
    Collectives left{job, "left"}, right{job, "right"};
    bool good = true;
    for (int round = 0; round < 20; ++round) {
      std::vector<float> a(1000, 1), b(1000, 2), c(4000, -1);
      auto first = left.start(sum_of(a.data(), 1000), "a");
      auto second = right.start(sum_of(b.data(), 1000), "b");
      auto third = left.start({Operation::all_gather, a.data(), c.data(), 1000, Dtype::fp32, 0}, "c");
      third.wait();
      second.wait();
      good = good && c == std::vector<float>(4000, 4) && b[999] == 8;
      first.wait();
      good = good && a[0] == 4;
    }
    problems[static_cast<std::size_t>(job.rank())] = good ? "" : "wrong";
  });
  CHECK(messages_of(outcome) == "");
  CHECK(problems == std::vector<std::string>(4));
}

TEST_CASE("a handle that was never waited for waits in its destructor") {
  std::array<float, 2> results{};
  auto const outcome = run_job(2, [&](Job& job) {
    Collectives beside{job, "beside"};
    float value = 5;
    {
      auto sum = beside.start(sum_of(&value, 1), "value");
      auto const moved = std::move(sum);
    }
    results[static_cast<std::size_t>(job.rank())] = value;
  });
  CHECK(messages_of(outcome) == "");
  CHECK(results == std::array<float, 2>{10, 10});
}

TEST_CASE("an exception that destroys a handle ends the waits of all ranks at once") {
  auto const begin = std::chrono::steady_clock::now();
  auto const outcome = run_job(3, [](Job& job) {
    Collectives beside{job, "beside"};
    float value = 1, other = 1;
    if (job.rank() == 1) {
      auto const sum = beside.start(sum_of(&value, 1), "value");
      throw std::runtime_error{"the disk is full"};
    }
    beside.start(sum_of(&value, 1), "value").wait();
    beside.start(sum_of(&other, 1), "other").wait();
  });
  CHECK(message_of(outcome[1]) == "the disk is full");
  for (auto const rank : {std::size_t{0}, std::size_t{2}}) {
    CHECK_THAT(message_of(outcome[rank]),
               Contains("rank 1 was ended by an exception while its collectives of communicator 'beside'"));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::minutes{1});
}

TEST_CASE("ranks that start different collectives get an error that names both") {
  auto const outcome = run_job(2, [](Job& job) {
    Collectives beside{job, "beside"};
    float value = 1;
    Collective most = sum_of(&value, 1);
    most.reduce = job.rank() == 0 ? Reduce::maximum : Reduce::minimum;
    beside.start(most, "value").wait();
  });
  for (auto const& error : outcome) {
    CHECK_THAT(message_of(error), Contains("by maximum") && Contains("by minimum") && Contains("(value, 1 fp32"));
  }
}

TEST_CASE("uneven blocks are exchanged during compute, and lists of the wrong length are rejected") {
  std::vector<std::string> problems(3);
  auto const outcome = run_job(3, [&](Job& job) {
    Collectives beside{job, "experts"};
    auto const me = static_cast<std::int64_t>(job.rank());
    std::array<std::int64_t, 3> const sent{me, me, me}, received{0, 1, 2};
    std::vector<std::int32_t> const tokens(static_cast<std::size_t>(3 * me), job.rank());
    std::vector<std::int32_t> mine(3, -1);
    auto& of = beside.communicator();
    beside.start(comm::all_to_all_v(of, tokens.data(), sent, mine.data(), received, Dtype::int32), "tokens").wait();
    bool refused = false;
    try {
      std::array<std::int64_t, 2> const two{};
      static_cast<void>(comm::all_to_all_v(of, tokens.data(), two, mine.data(), received, Dtype::int32));
    } catch (ContractError const& error) {
      refused = std::string{error.what()}.find("send_counts has 2 numbers; needed are 3, one for each rank") !=
                std::string::npos;
    }
    problems[static_cast<std::size_t>(job.rank())] = !refused                                     ? "not refused"
                                                     : mine == std::vector<std::int32_t>{1, 2, 2} ? ""
                                                                                                  : "wrong";
  });
  CHECK(messages_of(outcome) == "");
  CHECK(problems == std::vector<std::string>(3));
}

TEST_CASE("metrics are summed in rank order, in fp64, on a job and on its parts") {
  double const large = 1e17;
  std::array<std::array<double, 3>, 4> sums{};
  auto const outcome = run_job(4, [&](Job& job) {
    auto const rank = static_cast<std::size_t>(job.rank());
    std::array<double, 2> values{std::array<double, 4>{large, -large, 3, 0.5}[rank], 1};
    job.sum(values);
    Job half = job.split(job.rank() % 2, job.rank(), "half");
    std::array<double, 1> one{static_cast<double>(job.rank())};
    half.sum(one);
    half.sum(std::span<double>{});
    sums[rank] = {values[0], values[1], one[0]};
  });
  CHECK(messages_of(outcome) == "");
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(sums[rank] == std::array<double, 3>{3.5, 4, rank % 2 == 0 ? 2.0 : 4.0});
  }
}

TEST_CASE("ranks exchange bytes of any length, and are told who shares their machine") {
  for (int const world : {1, 2, 4}) {
    std::vector<std::string> problems(static_cast<std::size_t>(world));
    auto const outcome = run_job(
        world, [&](Job& job) { problems[static_cast<std::size_t>(job.rank())] = testing::problem_of_exchange(job); });
    CHECK(messages_of(outcome) == "");
    CHECK(problems == std::vector<std::string>(static_cast<std::size_t>(world)));
  }
  auto const outcome = run_job(2, [](Job& job) { static_cast<void>(job.gather("", 2)); });
  CHECK_THAT(message_of(outcome[0]), Contains("Job::gather(): root is 2; allowed are 0 to 1"));
}

TEST_CASE("machines are numbered by their first ranks") {
  std::vector<std::string> const ids{"b", "a", "b", "c", "a", "b"};
  auto const fourth = comm::machine_among(ids, 4);
  CHECK(fourth.index == 1);
  CHECK(fourth.count == 3);
  CHECK(fourth.rank == 1);
  CHECK(fourth.ranks == 2);
  auto const last = comm::machine_among(ids, 5);
  CHECK(last.index == 0);
  CHECK(last.rank == 2);
  CHECK(last.ranks == 3);
}

TEST_CASE("a wait with a limit returns what it found, and the program may ask again") {
  bool early = true, late = false;
  std::string error_before = "?";
  std::latch asked{1};
  auto const outcome = run_job(2, [&](Job& job) {
    Collectives beside{job, "beside"};
    float value = 1;
    if (job.rank() == 1) {
      asked.wait();
    }
    auto sum = beside.start(sum_of(&value, 1), "value");
    if (job.rank() == 0) {
      early = sum.wait_for(std::chrono::milliseconds{2});
      error_before = sum.error().value_or("");
      asked.count_down();
      late = sum.wait_for(std::chrono::minutes{1});
      late = late && value == 2 && sum.wait_for(std::chrono::milliseconds{0});
    }
  });
  CHECK(messages_of(outcome) == "");
  CHECK_FALSE(early);
  CHECK(error_before == "");
  CHECK(late);
}

TEST_CASE("a wait with a limit ends at once when another rank fails, and the failure can be read") {
  auto const begin = std::chrono::steady_clock::now();
  std::string error;
  std::latch started{1};
  auto const outcome = run_job(2, [&](Job& job) {
    Collectives beside{job, "beside"};
    if (job.rank() == 1) {
      started.wait();
      throw std::runtime_error{"the disk is full"};
    }
    float value = 1;
    auto sum = beside.start(sum_of(&value, 1), "value");
    started.count_down();
    try {
      static_cast<void>(sum.wait_for(std::chrono::minutes{5}));
    } catch (PeerError const&) {
      error = sum.error().value_or("");
      throw;
    }
  });
  CHECK_THAT(message_of(outcome[0]), Contains("rank 1"));
  CHECK_THAT(error, Contains("rank 1"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::minutes{1});
}

TEST_CASE("a job makes jobs of some ranks, asks who is missing, and shares keys and values") {
  std::array<double, 4> sums{};
  std::vector<std::vector<int>> missing(4);
  std::string port;
  auto const outcome = run_job(4, [&](Job& job) {
    auto const me = static_cast<std::size_t>(job.rank());
    auto store = job.key_value_store();
    if (job.rank() % 2 == 1) {  // ranks 0 and 2 know nothing of this
      Job odd = job.create_group(std::array{3, 1}, "odd");
      std::array<double, 1> sum{job.rank() + 10.0 * odd.rank()};
      odd.sum(sum);
      sums[me] = sum[0];
      if (odd.rank() == 0) {
        odd.key_value_store().set("port", "8080");  // the same store
      }
    }
    if (job.rank() == 0) {
      port = store.get("port", std::chrono::minutes{1});
    }
    if (job.rank() != 2) {
      missing[me] = job.monitored_barrier(std::chrono::milliseconds{50});
      store.add("told", 1);
    } else {
      while (store.add("told", 0) < 3) {
        std::this_thread::yield();
      }
      missing[me] = job.monitored_barrier(std::chrono::minutes{1});
    }
  });
  CHECK(messages_of(outcome) == "");
  CHECK(sums == std::array<double, 4>{0, 14, 0, 14});
  CHECK(port == "8080");
  CHECK(missing[2].empty());
  for (int const rank : {0, 1, 3}) {  // others may be late as well, on a busy machine
    auto const& named = missing[static_cast<std::size_t>(rank)];
    CHECK(std::ranges::find(named, 2) != named.end());
    CHECK(std::ranges::find(named, rank) == named.end());
  }
}

TEST_CASE("the reductions that a transport supports are known in advance") {
  using comm::supports;
  using comm::Transport;
  for (auto const transport : {Transport::local, Transport::mpi}) {
    CHECK(supports(transport, Reduce::logical_xor, Dtype::byte));
    CHECK(supports(transport, Reduce::min_location, Dtype::fp64_location));
    CHECK_FALSE(supports(transport, Reduce::bit_or, Dtype::fp32));
    CHECK_FALSE(supports(transport, Reduce::average, Dtype::int64));
    CHECK_FALSE(supports(transport, Reduce::sum, Dtype::fp32_location));
  }
  CHECK(supports(Transport::nccl, Reduce::average, Dtype::bf16));
  CHECK_FALSE(supports(Transport::nccl, Reduce::bit_and, Dtype::int32));
  CHECK_FALSE(supports(Transport::nccl, Reduce::max_location, Dtype::fp32_location));
}

}  // namespace
}  // namespace zeroth
