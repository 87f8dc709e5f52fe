// SPDX-License-Identifier: Apache-2.0
/// Ranks on a GPU that throw, or do not answer any more: every rank ends in time, and knows why.
#include <fmt/format.h>

#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>

#include "cuda/contribute.hpp"
#include "cuda/gpus.hpp"
#include "support/catch.hpp"
#include "zeroth/core/clock.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
constexpr int world = 4;
constexpr int bad_rank = 2;

Config config_of(int stage, int timeout_ms) {
  return Config::from_json(fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {{"stage": {}}},
    "zeroth": {{"timeout_ms": {}}} }})",
                                       stage, timeout_ms));
}

/// Counts the ranks other than the faulty one, which may wait until they have ended.
class Others {
 public:
  /// Exists while a rank trains.
  class Member {
   public:
    Member(Others& all, int rank) : all_{all}, is_bad_{rank == bad_rank} {}
    Member(Member const&) = delete;
    Member& operator=(Member const&) = delete;
    ~Member() { all_.ended_.count_down(is_bad_ ? 0 : 1); }

   private:
    Others& all_;
    bool is_bad_;
  };
  /// Waits for that, or until it is certain that they do not end.
  void await_end() const {
    auto const deadline = Clock::now() + std::chrono::minutes{1};
    while (!ended_.try_wait() && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

 private:
  std::latch ended_{world - 1};
};

/// Trains; in the third step the bad rank does `fault` between forward and backward of its units.
template <class Fault>
Outcome train_with(int stage, int timeout_ms, Fault const& fault) {
  begin_on({});
  auto const config = config_of(stage, timeout_ms);
  Others others;
  return run_job(
      world,
      [&](Job& job) {
        Others::Member const member{others, job.rank()};
        SmallModel const small;
        Engine<float> engine{job, small.model, config};
        for (int step = 1; step <= 5; ++step) {
          for (auto micro : engine.micro_steps()) {
            forward(micro, small);
            float const seed = micro.report_loss(1);
            if (step == 3 && job.rank() == bad_rank) {
              fault(others);
            }
            for (auto u = small.units.size(); u-- > 0;) {
              auto const p = micro.backward(small.units[u]);
              enqueue_contribution(p, small.weights[u], micro.first_sample(), seed, cuda_stream(engine));
            }
          }
          static_cast<void>(engine.step());
        }
        engine.finish();
      },
      {}, [](int) { return device::make_cuda_device(0); });
}

}  // namespace

TEST_CASE("an exception of a rank ends all ranks with its message") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = train_with(stage, 60'000, [](Others const&) { throw std::runtime_error{"out of paper"}; });
    for (int rank = 0; rank < world; ++rank) {
      auto const message = message_of(outcome[static_cast<std::size_t>(rank)]);
      CAPTURE(stage, rank, message);
      CHECK_THAT(message, rank == bad_rank ? Contains("out of paper") : Contains("rank 2"));
    }
    CHECK(left_on_gpus() == "");
  }
}

TEST_CASE("a rank that does not answer is named by the others, which end without it") {
  for (int const stage : {0, 3}) {
    auto const began = std::chrono::steady_clock::now();
    auto const outcome = train_with(stage, 5000, [](Others const& others) { others.await_end(); });
    for (int rank = 0; rank < world; ++rank) {
      auto const message = message_of(outcome[static_cast<std::size_t>(rank)]);
      CAPTURE(stage, rank, message);
      CHECK_THAT(message, Contains("waited"));
      CHECK_THAT(message, Contains("rank 2"));
    }
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::minutes{1});
    CHECK(left_on_gpus() == "");
  }
}

}  // namespace zeroth::testing
