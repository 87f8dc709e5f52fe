// SPDX-License-Identifier: Apache-2.0
/// Disks of an ActivationStore that become full, fail or are slow.
#include <cerrno>
#include <chrono>
#include <string>

#include "engine/activation_chain.hpp"
#include "support/catch.hpp"
#include "support/fail_points.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

struct SoundDiskAgain {
  SoundDiskAgain() = default;
  SoundDiskAgain(SoundDiskAgain const&) = delete;
  SoundDiskAgain& operator=(SoundDiskAgain const&) = delete;
  ~SoundDiskAgain() {
    FailPoints::odd_disk({});
    FailPoints::slow_down(std::chrono::milliseconds{0});
    FailPoints::disarm();
  }
};

/// Trains two ranks, and calls `between(rank, step)` before each step.
template <class F>
Outcome trained(Config const& config, F const& between) {
  return run_job(2, [&](Job& job) {
    Chain const chain;
    Engine<float> engine{job, chain.model, config};
    ActivationPolicy const policy{config, chain.model};
    ActivationStore store{engine, {.bytes = Chain::length * Chain::input_bytes}};
    ChainTape tape;
    for (int step = 1; step <= 4; ++step) {
      between(job.rank(), step);
      for (auto micro : engine.micro_steps()) {
        chain_micro_step(micro, chain, policy, &store, tape);
      }
      engine.step();
    }
    engine.finish();
  });
}

}  // namespace

TEST_CASE("a failed read of activations ends all ranks, naming file, bytes, unit and reason") {
  SoundDiskAgain const again;
  Folder const folder;
  auto const outcome = trained(chain_config(GENERATE(0, 3), folder.path()), [&](int rank, int step) {
    if (rank == 0 && step == 2) {
      FailPoints::odd_disk({.folder = folder.path(), .read_error = EIO});
    }
  });
  INFO(messages_of(outcome));
  REQUIRE(outcome[0]);
  REQUIRE(outcome[1]);
  CHECK_THAT(messages_of(outcome), Contains("the activations that are offloaded to a file in " +
                                            folder.path().string() + ": cannot be read: Input/output error; bytes ") &&
                                       Contains(": the input of unit \"unit"));
  CHECK(folder.contents().empty());
}

TEST_CASE("any failed write of activations ends all ranks") {
  SoundDiskAgain const again;
  Folder const folder;
  for (int const number : {1, 2, 7, 20}) {
    for (int const error : {EIO, ENOSPC}) {
      FailPoints::arm(folder.path(), number + 4, error);  // the first calls create the files: open and fallocate of two
      auto const outcome = trained(chain_config(3, folder.path()), [](int, int) {});
      INFO(fmt::format("call {}: {}\n{}", number, FailPoints::failed(), messages_of(outcome)));
      FailPoints::disarm();
      REQUIRE(outcome[0]);
      REQUIRE(outcome[1]);
      CHECK_THAT(messages_of(outcome), Contains(error == EIO ? "Input/output error" : "No space left on device") &&
                                           Contains("the activations that are offloaded to a file in ") &&
                                           Contains("cannot be written"));
      CHECK(folder.contents().empty());
    }
  }
}

TEST_CASE("a disk without room for the store is reported at the start on all ranks") {
  SoundDiskAgain const again;
  Folder const folder;
  FailPoints::arm(folder.path(), 2, ENOSPC);
  auto const outcome = trained(chain_config(0, folder.path()), [](int, int) {});
  INFO(messages_of(outcome));
  REQUIRE(outcome[0]);
  REQUIRE(outcome[1]);
  CHECK_THAT(messages_of(outcome), Contains("the activations that are offloaded to a file in " +
                                            folder.path().string() + ": cannot be written: No space left on device"));
}

TEST_CASE("a disk that does not answer for activations ends all ranks at the timeout") {
  SoundDiskAgain const again;
  Folder const folder;
  auto const outcome = trained(chain_config(1, folder.path(), R"("all")", 2000), [&](int rank, int step) {
    if (rank == 0 && step == 2) {
      FailPoints::odd_disk({.folder = folder.path(), .holds = true});
    }
  });
  INFO(messages_of(outcome));
  REQUIRE(outcome[0]);
  REQUIRE(outcome[1]);
  CHECK_THAT(messages_of(outcome), Contains("the disk does not answer: ") &&
                                       Contains("1500 ms, three quarters of zeroth.timeout_ms; bytes "));
}

TEST_CASE("disks that sleep at random, and transfer little at a time, change no bit") {
  SoundDiskAgain const again;
  Folder const folder;
  auto const weights = [&] {
    std::vector<float> all(static_cast<std::size_t>(Chain::width));
    auto const outcome = run_job(2, [&](Job& job) {
      Chain const chain;
      auto const config = chain_config(3, folder.path());
      Engine<float> engine{job, chain.model, config};
      ActivationStore store{engine, {.bytes = Chain::length * Chain::input_bytes}};
      train_chain(engine, chain, {config, chain.model}, &store, 4);
      std::vector<float> mine(all.size());
      engine.read(chain.params[2], mine);
      if (job.rank() == 0) {
        all = mine;
      }
    });
    CHECK(messages_of(outcome) == "");
    return all;
  };
  auto const expected = weights();
  for (unsigned seed = 1; seed <= 6; ++seed) {
    FailPoints::odd_disk({.folder = folder.path(), .most = seed % 2 == 0 ? std::size_t{4096} : 0, .seed = seed});
    CHECK(weights() == expected);
  }
}

TEST_CASE("a report has the time that compute waited for activations") {
  SoundDiskAgain const again;
  Folder const folder;
  double waited = 0, io = 0;
  FailPoints::slow_down(std::chrono::milliseconds{20});
  auto const outcome = run_job(1, [&](Job& job) {
    Chain const chain;
    auto const config = chain_config(0, folder.path());
    Engine<float> engine{job, chain.model, config};
    ActivationStore store{engine, {.bytes = Chain::length * Chain::input_bytes}};
    for (auto const& report : train_chain(engine, chain, {config, chain.model}, &store, 2)) {
      expect(report.activation_ms <= report.step_ms, "waits are part of a step");
      waited += report.activation_ms;
      io += report.exposed_io_ms;
    }
    expect(store.waited_ms() >= waited, "the store has waited as well");
  });
  CHECK(messages_of(outcome) == "");
  CHECK(waited >= 4 * 20);  // each of four micro-steps waits for a slot
  CHECK(io == 0);
}

}  // namespace zeroth::testing
