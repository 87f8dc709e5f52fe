// SPDX-License-Identifier: Apache-2.0
/// Faults that only threads can show: ranks that leave, throw or are destroyed in the middle.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/local_ranks.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

std::string error_of(device::Stream& stream) {
  try {
    stream.synchronize();
    return "nothing was thrown";
  } catch (std::exception const& error) {
    return error.what();
  }
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

void all_reduce(Rank& rank, device::Stream& stream, float& data) {
  rank.communicator.all_reduce(stream, {"backward", "block 7"}, &data, &data, 1, Dtype::fp32);
}

TEST_CASE("ranks that wait for a rank that left get an error that says so") {
  int const world = GENERATE(2, 3, 4);
  auto const results = run_ranks(make_local(world), [](Rank& rank, std::unique_ptr<Communicator>& owner) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    all_reduce(rank, *stream, data);
    stream->synchronize();
    if (rank.communicator.rank() == 1) {
      owner.reset();
      return std::string{"left"};
    }
    all_reduce(rank, *stream, data);
    return error_of(*stream);
  });
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    CAPTURE(results[rank]);
    if (rank != 1) {
      CHECK(contains(results[rank], "rank 1 left"));
      CHECK(contains(results[rank], "all_reduce (backward of unit 'block 7', 1 fp32), transaction 2"));
    }
  }
}

TEST_CASE("a rank may leave when no other rank needs it any more") {
  auto const results = run_ranks(make_local(4), [](Rank& rank, std::unique_ptr<Communicator>& owner) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    for (int i = 0; i < 200; ++i) {
      all_reduce(rank, *stream, data);
    }
    stream->synchronize();
    owner.reset();
    return error_of(*stream);
  });
  for (auto const& result : results) {
    CHECK(result == "nothing was thrown");
  }
}

TEST_CASE("ranks that wait for a message from a rank that left get an error that says so") {
  auto const results = run_ranks(make_local(2), [](Rank& rank, std::unique_ptr<Communicator>& owner) {
    if (rank.communicator.rank() == 1) {
      owner.reset();
      return std::string{"left"};
    }
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    Collective const receive{Operation::receive, nullptr, &data, 1, Dtype::fp32, 1};
    rank.communicator.submit(*stream, {"forward", "stage 2"}, {&receive, 1});
    return error_of(*stream);
  });
  CAPTURE(results[0]);
  CHECK(contains(results[0], "rank 1 left"));
  CHECK(contains(results[0], "receive (forward of unit 'stage 2', 1 fp32, from rank 1)"));
}

TEST_CASE("a rank that left does not disturb messages between others") {
  bool const sends = GENERATE(false, true);
  auto const results = run_ranks(make_local(3), [&](Rank& rank, std::unique_ptr<Communicator>& owner) {
    int const me = rank.communicator.rank();
    if (me == 2) {
      owner.reset();
      return std::string{"left"};
    }
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = static_cast<float>(me);
    if (me == 1) {  // late enough for rank 0 to check which ranks have left
      std::this_thread::sleep_for(std::chrono::milliseconds{250});
    }
    auto const operation = sends == (me == 0) ? Operation::send : Operation::receive;
    Collective const message{operation, &data, &data, 1, Dtype::fp32, 1 - me};
    rank.communicator.submit(*stream, {"forward", "stage 2"}, {&message, 1});
    return error_of(*stream);
  });
  CAPTURE(sends);
  CHECK(results == std::vector<std::string>{"nothing was thrown", "nothing was thrown", "left"});
}

TEST_CASE("a message whose sender timed out does not arrive") {
  std::atomic<bool> gave_up{false};
  std::vector<float> received(2, 0);
  auto const results = run_ranks(2, [&](Rank& rank) {
    auto const me = static_cast<std::size_t>(rank.communicator.rank());
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = me == 0 ? 7 : 0;
    if (me == 0) {
      rank.communicator.set_options({.timeout = std::chrono::milliseconds{200}});
      Collective const send{Operation::send, &data, nullptr, 1, Dtype::fp32, 1};
      rank.communicator.submit(*stream, {"forward", "stage 2"}, {&send, 1});
    } else {
      while (!gave_up) {  // the sender may use its memory again
        std::this_thread::yield();
      }
      Collective const receive{Operation::receive, nullptr, &data, 1, Dtype::fp32, 0};
      rank.communicator.submit(*stream, {"forward", "stage 2"}, {&receive, 1});
    }
    auto const error = error_of(*stream);
    gave_up = true;
    received[me] = data;
    return error;
  });
  CAPTURE(results[0], results[1]);
  CHECK(contains(results[0], "missing: rank 1"));
  CHECK(contains(results[1], "rank 0 waited"));
  CHECK(received[1] == 0);
}

TEST_CASE("a communicator may be destroyed while its own transaction waits") {
  auto const results = run_ranks(make_local(2), [](Rank& rank, std::unique_ptr<Communicator>& owner) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    auto& recorder = rank.communicator.recorder();
    if (rank.communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      owner.reset();
      return std::string{"left"};
    }
    all_reduce(rank, *stream, data);
    while (recorder.snapshot().front().started_ns == 0) {
      std::this_thread::yield();
    }
    owner.reset();
    return error_of(*stream);
  });
  CAPTURE(results[0]);
  CHECK(contains(results[0], "left"));
}

TEST_CASE("a task that throws before a collective aborts the other ranks") {
  auto const results = run_ranks(3, [](Rank& rank) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    if (rank.communicator.rank() == 2) {
      device::as_cpu(*stream).post([] { throw std::runtime_error{"out of paper"}; });
    }
    all_reduce(rank, *stream, data);  // skipped on rank 2
    auto const error = error_of(*stream);
    if (rank.communicator.rank() == 2) {
      rank.communicator.abort("rank 2: " + error);  // as the launcher does with a rank's exception
    }
    return error;
  });
  CHECK(results[2] == "out of paper");
  for (int const rank : {0, 1}) {
    auto const& result = results[static_cast<std::size_t>(rank)];
    CAPTURE(result);
    CHECK(contains(result, "rank 2: out of paper"));
    CHECK(contains(result, "block 7"));
  }
}

/// However an abort and the last arrival coincide, either all ranks ran the collective or none did. When a rank has its
/// error, no other rank uses its memory any more.
TEST_CASE("an abort in the middle of a collective ends it on all ranks") {
  constexpr int world = 3;
  for (int round = 0; round < 60; ++round) {
    std::atomic<int> started{0};
    auto const results = run_ranks(world, [&](Rank& rank) {
      auto const stream = rank.device.make_stream("test", device::Overlap::on);
      auto data = std::make_unique<std::vector<float>>(20'000, 1.0F);
      started.fetch_add(1);
      while (started.load() < world) {
        std::this_thread::yield();
      }
      for (int i = 0; i < 8; ++i) {
        rank.communicator.all_reduce(*stream, {"step", ""}, data->data(), data->data(), std::ssize(*data), Dtype::fp32);
      }
      if (rank.communicator.rank() == round % world) {
        std::this_thread::sleep_for(std::chrono::microseconds{round * 7});
        rank.communicator.abort("enough");
      }
      auto const error = error_of(*stream);
      bool const uniform = std::all_of(data->begin(), data->end(), [&](float each) { return each == data->front(); });
      auto const front = data->front();
      data.reset();
      return error.substr(0, 40) + (uniform ? "" : " torn") +
             (contains(error, "enough") || front == 6561 ? "" : " odd");
    });
    for (auto const& result : results) {
      CAPTURE(round, result);
      CHECK((result == "nothing was thrown" || contains(result, "enough")));
      CHECK_FALSE(contains(result, "torn"));
      CHECK_FALSE(contains(result, "odd"));
    }
  }
}

TEST_CASE("an abort reaches the communicators of splits") {
  auto const results = run_ranks(4, [](Rank& rank) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    int const me = rank.communicator.rank();
    auto const pair = rank.communicator.split(me / 2, me, "pair");
    float data = 1;
    if (me == 3) {
      rank.communicator.abort("the machine room is flooded");
      return std::string{};
    }
    if (me == 2) {  // its partner does not come
      pair->all_reduce(*stream, {"backward", "block 7"}, &data, &data, 1, Dtype::fp32);
    } else {  // the partner does, but a rank of another pair has aborted
      while (error_of(*stream) == "nothing was thrown") {
        pair->all_reduce(*stream, {"backward", "block 7"}, &data, &data, 1, Dtype::fp32);
      }
    }
    return error_of(*stream);
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CAPTURE(results[rank]);
    CHECK(contains(results[rank], "the machine room is flooded"));
    CHECK(contains(results[rank], "communicator 'pair'"));
  }
  CHECK(contains(results[2], "rank 2 (of 'pair': ranks 2 and 3)"));
}

TEST_CASE("a split that not all ranks join times out") {
  auto const results = run_ranks(3,
                                 [](Rank& rank) {
                                   if (rank.communicator.rank() == 1) {  // is in another collective
                                     auto const stream = rank.device.make_stream("test", device::Overlap::on);
                                     float data = 1;
                                     all_reduce(rank, *stream, data);
                                     return error_of(*stream);
                                   }
                                   try {
                                     static_cast<void>(rank.communicator.split(0, 0, "halves"));
                                   } catch (PeerError const& error) {
                                     return std::string{error.what()};
                                   }
                                   return std::string{"nothing was thrown"};
                                 },
                                 {.timeout = std::chrono::milliseconds{200}});
  for (auto const& result : results) {
    CAPTURE(result);
    CHECK(contains(result, "waited"));
    CHECK(contains(result, "missing: "));
  }
}

TEST_CASE("ranks that have arrived are not reported as missing") {
  std::atomic<bool> there{false}, told{false};
  auto const results = run_ranks(3,
                                 [&](Rank& rank) {
                                   int const me = rank.communicator.rank();
                                   if (me == 2) {
                                     while (!told) {  // neither comes nor leaves
                                       std::this_thread::yield();
                                     }
                                     return std::string{};
                                   }
                                   auto const stream = rank.device.make_stream("test", device::Overlap::on);
                                   if (me == 1) {
                                     rank.communicator.set_options({.timeout = std::chrono::minutes{10}});
                                     rank.post(*stream, [&] { there = true; });
                                   } else {
                                     rank.communicator.set_options({.timeout = std::chrono::seconds{1}});
                                     while (!there) {
                                       std::this_thread::yield();
                                     }
                                   }
                                   float data = 1;
                                   all_reduce(rank, *stream, data);
                                   auto const error = error_of(*stream);
                                   told = true;
                                   return error;
                                 },
                                 {.timeout = std::chrono::minutes{10}});
  CAPTURE(results[0]);
  CHECK(contains(results[0], "missing: rank 2"));
  CHECK(!contains(results[0], "rank 1"));
}

TEST_CASE("make_local rejects invalid arguments") {
  CHECK_THROWS_AS(make_local(0), ContractError);
  CHECK_THROWS_AS(make_local(2, {}, {std::make_shared<FlightRecorder>(0, 2)}), ContractError);
  CHECK_THROWS_AS(make_local(1, {}, {nullptr}), ContractError);
  CHECK_THROWS_AS(make_local(1, {.timeout = std::chrono::milliseconds{0}}), ContractError);
  auto const one = make_local(1);
  CHECK_THROWS_AS(one[0]->set_options({.timeout = std::chrono::milliseconds{-1}}), ContractError);
}

}  // namespace
}  // namespace zeroth::comm::conformance
