// SPDX-License-Identifier: Apache-2.0
/// Engines on parts of a job train at the same time, and bit for bit like whole jobs of that size.
#include "parts.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/job.hpp"

namespace zeroth::testing {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("two parts train different models at once like jobs of their size") {
  int const world = GENERATE(2, 4, 5);
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<OfPart> parts(static_cast<std::size_t>(world));
    auto const outcome =
        run_job(world, [&](Job& job) { parts[static_cast<std::size_t>(job.rank())] = train_in_parts(job, stage); });
    REQUIRE(messages_of(outcome) == "");
    for (int color = 0; color < 2; ++color) {
      int const size = (world + 1 - color) / 2;
      std::vector<std::vector<std::uint32_t>> plain(static_cast<std::size_t>(size));
      REQUIRE(messages_of(run_job(size, [&](Job& job) {
                plain[static_cast<std::size_t>(job.rank())] = train_as(job, color, stage);
              })) == "");
      for (int rank = color; rank < world; rank += 2) {
        auto const& part = parts[static_cast<std::size_t>(rank)];
        CAPTURE(world, stage, color, rank);
        CHECK(part.world == size);
        CHECK(part.rank == (color == 0 ? rank / 2 : size - 1 - rank / 2));
        REQUIRE(part.bits.size() > 300);
        CHECK(part.bits == plain[static_cast<std::size_t>(part.rank)]);
      }
    }
  }
}

TEST_CASE("a part of a part works as a job") {
  std::vector<int> worlds(4), sums(4);
  auto const outcome = run_job(4, [&](Job& job) {
    Job half = job.split(job.rank() / 2, job.rank(), "half");
    Job alone = half.split(half.rank(), 0, "alone");
    Job const moved = std::move(alone);
    auto const device = half.make_device();
    std::int32_t sum = job.rank();
    half.communicator().all_reduce(device->compute(), {"test", ""}, &sum, &sum, 1, Dtype::int32);
    worlds[static_cast<std::size_t>(job.rank())] = 10 * half.world() + moved.world();
    sums[static_cast<std::size_t>(job.rank())] = sum;
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK(worlds == std::vector{21, 21, 21, 21});
  CHECK(sums == std::vector{1, 1, 5, 5});
}

TEST_CASE("a stop request reaches the part that it was made in, and the parts of that part") {
  std::vector<std::string> seen(4);
  auto const outcome = run_job(4, [&](Job& job) {
    Job half = job.split(job.rank() / 2, job.rank(), "half");
    Job quarter = half.split(half.rank(), 0, "quarter");
    half.communicator().barrier(half.make_device()->compute(), {"test", ""});
    if (job.rank() == 1) {
      half.request_stop();
    }
    SmallModel const small;
    auto const stops = [&](Job& of) {
      Engine<float> engine{of, small.model, small_config(2)};
      return train(engine, small, 1).front().stop ? "stop " : "go ";
    };
    seen[static_cast<std::size_t>(job.rank())] = std::string{stops(half)} + stops(quarter) + stops(job);
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK(seen == std::vector<std::string>{"stop go go ", "stop stop go ", "go go go ", "go go go "});
}

TEST_CASE("a fault of a rank in one part ends the other part") {
  auto const outcome = run_job(4, [](Job& job) {
    Job part = job.split(job.rank() % 2, job.rank(), job.rank() % 2 == 0 ? "even" : "odd");
    SmallModel const small;
    Engine<float> engine{part, small.model, small_config(3)};
    for (int step = 0; step < 1'000'000; ++step) {
      all_micro_steps(engine, small);
      static_cast<void>(engine.step());
      if (job.rank() == 3 && step == 2) {
        throw std::runtime_error{"the disk is full"};
      }
    }
  });
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    auto const& error = outcome[static_cast<std::size_t>(rank)];
    CHECK_THAT(message_of(error), Contains("the disk is full") || Contains("rank 3 ended by an error"));
    CHECK(holds<PeerError>(error) == (rank != 3));
  }
}

TEST_CASE("invalid parts are rejected") {
  auto const outcome = run_job(2, [](Job& job) { static_cast<void>(job.split(-1, 0, "none")); });
  CHECK_THAT(message_of(outcome[0]), Contains("the color of part 'none' is -1; allowed are 0 and above"));
  auto const unnamed = run_job(2, [](Job& job) { static_cast<void>(job.split(0, 0, "")); });
  CHECK_THAT(message_of(unnamed[1]), Contains("split of communicator 'world': the new name ''"));
}

}  // namespace
}  // namespace zeroth::testing
