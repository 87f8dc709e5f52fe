// SPDX-License-Identifier: Apache-2.0
#include "core/counter.hpp"

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace zeroth {
namespace {

using std::chrono::milliseconds;

TEST_CASE("a counter starts at zero and returns what it has become") {
  Counter counter;
  CHECK(counter.value() == 0);
  CHECK(counter.add() == 1);
  CHECK(counter.add(41) == 42);
  CHECK(counter.value() == 42);
  counter.wait_for(42);
  counter.wait_for(7);
}

TEST_CASE("a wait that is not satisfied ends at its deadline, not before") {
  Counter counter;
  auto const begin = Clock::now();
  CHECK_FALSE(counter.wait_until(1, begin + milliseconds{30}));
  CHECK(Clock::now() >= begin + milliseconds{30});
  CHECK_FALSE(counter.wait_until(1, begin));  // already past
  counter.add();
  CHECK(counter.wait_until(1, begin));  // a value that was reached needs no waiting
}

TEST_CASE("targets are taken modulo 2^32") {
  CHECK(Counter::reached(0, 0xffffffffU));
  CHECK(Counter::reached(5, 0xfffffff0U));
  CHECK_FALSE(Counter::reached(0xfffffff0U, 5));

  Counter counter;
  counter.add(0xfffffffeU);
  std::thread waiter{[&] { counter.wait_for(3); }};
  for (int i = 0; i < 5; ++i) {
    counter.add();  // passes zero on the way, with a sleeper
  }
  waiter.join();
  CHECK(counter.value() == 3);
}

TEST_CASE("adding wakes every sleeper, and makes earlier writes visible") {
  constexpr int sleepers = 8;
  Counter counter;
  int written = 0;
  std::array<int, sleepers> seen{};
  std::vector<std::thread> threads;
  for (int i = 0; i < sleepers; ++i) {
    threads.emplace_back([&, i] {
      counter.wait_for(static_cast<std::uint32_t>(i % 2 + 1));
      seen[static_cast<std::size_t>(i)] = written;
    });
  }
  std::this_thread::sleep_for(milliseconds{20});  // lets most of them fall asleep; the result does not depend on it
  written = 17;
  counter.add(2);
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(seen == std::array<int, sleepers>{17, 17, 17, 17, 17, 17, 17, 17});
}

TEST_CASE("two threads hand a value back and forth without losing a wake") {
  constexpr std::uint32_t rounds = 20'000;
  Counter ping, pong;
  std::uint32_t shared = 0;
  std::uint32_t wrong = 0;
  std::thread other{[&] {
    for (std::uint32_t i = 1; i <= rounds; ++i) {
      ping.wait_for(i);
      wrong += shared == 2 * i - 1 ? 0 : 1;
      ++shared;
      pong.add();
    }
  }};
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    ++shared;
    ping.add();
    pong.wait_for(i);
  }
  other.join();
  CHECK(wrong == 0);
  CHECK(shared == 2 * rounds);
}

TEST_CASE("a thread that has seen the value may destroy the counter") {
  for (int i = 0; i < 2'000; ++i) {
    auto counter = std::make_unique<Counter>();
    std::thread adder{[address = counter.get()] { address->add(); }};
    counter->wait_for(1);
    counter.reset();
    adder.join();
  }
  SUCCEED("for the sanitizers to judge");
}

TEST_CASE("one thread can wait for the sum of many threads' additions") {
  constexpr int adders = 4;
  constexpr int each = 5'000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < adders; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < each; ++k) {
        counter.add();
      }
    });
  }
  counter.wait_for(adders * each);
  CHECK(counter.value() == adders * each);
  for (auto& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace zeroth
