// SPDX-License-Identifier: Apache-2.0
/// The sleeps of ranks while a call of NCCL is in progress. Calls of nanosleep() are interposed by the linker's --wrap.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "comm/conformance_parts.hpp"
#include "comm/nccl/pace.hpp"
#include "cuda/nccl_ranks.hpp"
#include "support/catch.hpp"

namespace {

/// This thread's sleeps in ns, without those of a millisecond or more, with which ranks yield to the watch.
std::vector<long>& rests_ns() {
  thread_local std::vector<long> mine;
  return mine;
}

}  // namespace

extern "C" int __real_nanosleep(timespec const* time, timespec* left);
extern "C" int __wrap_nanosleep(timespec const* time, timespec* left);
int __wrap_nanosleep(timespec const* time, timespec* left) {
  if (time->tv_sec == 0 && time->tv_nsec < 1'000'000) {
    rests_ns().push_back(time->tv_nsec);
  }
  return __real_nanosleep(time, left);
}

namespace zeroth::comm::conformance {
namespace {

namespace fake_nccl = testing::fake_nccl;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// The sleeps of a rank in a sum that is still in progress for that many queries.
std::vector<long> rests_of_a_sum(int questions) {
  testing::begin_nccl();
  std::vector<long> rests;
  auto const problems = testing::run_nccl_ranks(1, [&](Rank& rank, auto&) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    rests_ns().clear();
    fake_nccl::take_time(questions);
    rank.communicator.all_reduce(*stream, {"test", "sum"}, &data, &data, 1, Dtype::fp32);
    rests = rests_ns();
    fake_nccl::take_time(0);
    return error_of(*stream);
  });
  REQUIRE(problems == std::vector<std::string>(1));
  REQUIRE(testing::left_over() == "");
  return rests;
}

}  // namespace

TEST_CASE("polling starts to sleep after a millisecond, at first briefly") {
  STATIC_REQUIRE(rest_between(0, milliseconds{0}) == microseconds{0});
  STATIC_REQUIRE(rest_between(500, microseconds{500}) == microseconds{0});
  STATIC_REQUIRE(rest_between(1'000'000, microseconds{999}) == microseconds{0});
  STATIC_REQUIRE(rest_between(999, milliseconds{100}) == microseconds{0});  // most of that time was other threads'
  STATIC_REQUIRE(rest_between(1000, milliseconds{1}) == microseconds{20});
  STATIC_REQUIRE(rest_between(1001, milliseconds{2}) == microseconds{40});
  STATIC_REQUIRE(rest_between(5000, std::chrono::hours{1}) == microseconds{200});
}

TEST_CASE("a transaction that NCCL completes soon needs no sleep") {
  CHECK(rests_of_a_sum(0).empty());
  CHECK(rests_of_a_sum(900).empty());
}

TEST_CASE("a longer transaction is polled with short sleeps that grow") {
  while (true) {  // until it took longer than a millisecond: the NCCL of the tests answers at its machine's speed
    static int questions = 1000;
    auto const rests = rests_of_a_sum(questions *= 2);
    if (rests.empty()) {
      continue;
    }
    CHECK(rests.front() >= 20'000);
    CHECK(std::is_sorted(rests.begin(), rests.end()));
    CHECK(rests.back() <= 200'000);
    break;
  }
}

}  // namespace zeroth::comm::conformance
