// SPDX-License-Identifier: Apache-2.0
/// Pieces that pass through a few buffers on three streams, all with random delays.
#include "shard/swap_queue.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {
namespace {

using device::as_cpu;
using device::Overlap;

/// Buffers of one number each, the streams that fill, square and empty them, and the results.
struct Passage {
  std::unique_ptr<device::Device> device = device::make_cpu_device();
  shard::SwapQueue queue;
  std::vector<std::int64_t> buffers, out;
  unsigned seed;
  // Destroyed first, since they use all other members.
  std::unique_ptr<device::Stream> fills = device->make_stream("fill", Overlap::on);
  std::unique_ptr<device::Stream> work = device->make_stream("work", Overlap::on);
  std::unique_ptr<device::Stream> empties = device->make_stream("empty", Overlap::on);

  Passage(int size, unsigned with_seed)
      : queue{*device, size}, buffers(static_cast<std::size_t>(size)), seed{with_seed} {}

  template <class F>
  void post(device::Stream& stream, F const& work_on) {
    auto const sleep = std::chrono::microseconds{(seed = seed * 1664525U + 1013904223U) >> 26U};
    as_cpu(stream).post([work_on, sleep] {
      std::this_thread::sleep_for(sleep);
      work_on();
    });
  }
  [[nodiscard]] std::int64_t& at(std::int64_t piece) { return buffers[static_cast<std::size_t>(queue.buffer(piece))]; }

  void fill() {
    queue.fill(*fills, [&] { post(*fills, [&at = at(queue.filled()), piece = queue.filled()] { at = piece; }); });
  }
  void pass() {
    queue.acquire(*work);
    post(*work, [&at = at(queue.released())] { at *= at; });
    queue.release(*work, *empties, [&](device::Event& /*used*/) {
      post(*empties, [this, &at = at(queue.released())] { out.push_back(at); });
    });
  }
};

TEST_CASE("what goes through a swap queue comes out whole and in order, however far it is filled ahead") {
  for (int const size : {1, 2, 3}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      INFO("buffers " << size << ", seed " << seed);
      Passage passage{size, seed};
      auto const ahead = 1 + static_cast<std::int64_t>(seed) % size;
      for (std::int64_t piece = 0; piece < 20; ++piece) {
        while (passage.queue.filled() < piece + ahead) {
          REQUIRE(passage.queue.has_room());
          passage.fill();
        }
        CHECK(passage.queue.has_room() == (ahead < size));
        passage.pass();
      }
      passage.empties->synchronize();
      std::vector<std::int64_t> expected;
      for (std::int64_t piece = 0; piece < 20; ++piece) {
        expected.push_back(piece * piece);
      }
      CHECK(passage.out == expected);
    }
  }
}

TEST_CASE("a swap queue forgets what was filled ahead, and starts again") {
  Passage passage{3, 1};
  for (int i = 0; i < 3; ++i) {
    passage.fill();
  }
  passage.pass();
  passage.queue.forget();
  CHECK(passage.queue.filled() == 1);
  CHECK(passage.queue.has_room());
  passage.fill();
  passage.pass();
  passage.queue.restart();
  CHECK(passage.queue.buffer(passage.queue.filled()) == 0);
  passage.fill();
  passage.pass();
  passage.empties->synchronize();
  CHECK(passage.out == std::vector<std::int64_t>{0, 1, 0});
}

TEST_CASE("a buffer that is only read from is free once its reader is done") {
  Passage passage{1, 2};
  std::vector<std::int64_t> read;
  for (std::int64_t piece = 0; piece < 5; ++piece) {
    passage.fill();
    passage.queue.acquire(*passage.work);
    passage.post(*passage.work, [&read, &at = passage.at(piece)] { read.push_back(at); });
    passage.queue.release(*passage.work);
  }
  passage.work->synchronize();
  CHECK(read == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

}  // namespace
}  // namespace zeroth::testing
