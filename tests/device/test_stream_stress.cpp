// SPDX-License-Identifier: Apache-2.0
/// For ThreadSanitizer: many streams, random dependencies, and memory that only events protect.
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {
namespace {

/// One stream after another accesses a cell; an event recorded after each access orders the next one. Returns the
/// values of the cells and the expected values.
std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>> random_dependencies(std::uint32_t seed, int tasks) {
  constexpr std::size_t streams = 4, cells = 5;
  auto const device = make_cpu_device();
  std::array<std::unique_ptr<Stream>, streams> workers;
  for (std::size_t i = 0; i < streams; ++i) {
    workers[i] = device->make_stream("stress", i + 1 == streams ? Overlap::off : Overlap::on);
  }
  std::array<std::unique_ptr<Event>, cells> touched;
  for (auto& event : touched) {
    event = device->make_event();
  }
  std::vector<std::uint64_t> values(cells, 1), expected(cells, 1);
  std::mt19937 random{seed};
  for (int task = 0; task < tasks; ++task) {
    auto& stream = *workers[random() % streams];
    std::size_t const to = random() % cells, from = random() % cells;
    stream.wait(*touched[to]);
    stream.wait(*touched[from]);
    as_cpu(stream).post([&values, to, from] { values[to] = values[to] * 31 + values[from]; });
    stream.record(*touched[to]);
    if (from != to) {
      stream.record(*touched[from]);  // the next writer must come after this reader
    }
    expected[to] = expected[to] * 31 + expected[from];
  }
  for (auto const& event : touched) {
    event->synchronize();
  }
  return {values, expected};
}

TEST_CASE("random dependencies among streams give the result of program order") {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    auto const [values, expected] = random_dependencies(seed, 1500);
    INFO(seed);
    CHECK(values == expected);
  }
}

TEST_CASE("devices of several ranks work in parallel") {
  constexpr int ranks = 4;
  std::array<bool, ranks> right{};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([rank, &right] {
      auto const [values, expected] = random_dependencies(static_cast<std::uint32_t>(100 + rank), 800);
      right[static_cast<std::size_t>(rank)] = values == expected;
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(right == std::array<bool, ranks>{true, true, true, true});
}

TEST_CASE("ranks hand memory to each other through events") {
  // Each rank's thread writes its cell on its own stream; the other rank's stream reads it after the event.
  constexpr int rounds = 600;
  struct Rank {
    std::unique_ptr<Device> device = make_cpu_device();
    std::unique_ptr<Stream> stream = device->make_stream("rank", Overlap::on);
    std::unique_ptr<Event> written = device->make_event();
    std::int64_t cell = 0, sum = 0;
  };
  std::array<Rank, 2> ranks;
  for (int round = 1; round <= rounds; ++round) {
    for (auto& rank : ranks) {
      as_cpu(*rank.stream).post([&rank, round] { rank.cell = round; });
      rank.stream->record(*rank.written);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      auto &mine = ranks[i], &other = ranks[1 - i];
      mine.stream->wait(*other.written);
      as_cpu(*mine.stream).post([&mine, &other] { mine.sum += other.cell; });
    }
    for (std::size_t i = 0; i < 2; ++i) {  // no rank writes before the other has read
      ranks[i].stream->record(*ranks[i].written);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      ranks[i].stream->wait(*ranks[1 - i].written);
    }
  }
  for (auto& rank : ranks) {
    rank.stream->synchronize();
    CHECK(rank.sum == rounds * (rounds + 1) / 2);
  }
}

TEST_CASE("failures on several streams at once leave one error and no hang") {
  for (int round = 0; round < 100; ++round) {
    auto const device = make_cpu_device();
    std::array<std::unique_ptr<Stream>, 3> streams;
    for (auto& stream : streams) {
      stream = device->make_stream("failing", Overlap::on);
    }
    for (int i = 0; i < 50; ++i) {
      for (auto& stream : streams) {
        as_cpu(*stream).post([i] {
          if (i == 25) {
            throw 7;
          }
        });
      }
    }
    int caught = 0;
    for (auto& stream : streams) {
      try {
        stream->synchronize();
      } catch (int error) {
        caught += error == 7 ? 1 : 0;
      }
    }
    REQUIRE(caught == 3);
  }
}

TEST_CASE("streams and events come and go while others work") {
  auto const device = make_cpu_device();
  auto const steady = device->make_stream("steady", Overlap::on);
  std::int64_t value = 0;
  for (int i = 0; i < 200; ++i) {
    auto const event = device->make_event();
    {
      auto const brief = device->make_stream("brief", Overlap::on);
      brief->wait(*event);
      as_cpu(*brief).post([&value] { ++value; });
      brief->record(*event);
      steady->wait(*event);
    }
    as_cpu(*steady).post([&value] { ++value; });
    steady->record(*event);
    device->compute().wait(*event);
  }
  CHECK(value == 400);
}

}  // namespace
}  // namespace zeroth::device
