// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/counter.hpp"
#include "device/kernels.hpp"
#include "support/catch.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"
#include "zeroth/device/timeline.hpp"

namespace zeroth::device {
namespace {

using Catch::Contains;

/// A task that runs until the gate is opened.
struct Gate {
  Counter entered, opened;
  void hold(Stream& stream) {
    as_cpu(stream).post([this] {
      entered.add();
      opened.wait_for(1);
    });
  }
  void open() { opened.add(); }
};

TEST_CASE("an event that was never recorded counts as passed") {
  auto const device = make_cpu_device();
  auto const event = device->make_event();
  CHECK(event->done());
  event->synchronize();
  device->compute().wait(*event);
  auto const stream = device->make_stream("any", Overlap::on);
  stream->wait(*event);
  stream->synchronize();
  CHECK(device->compute().waited_ms() == 0);
}

TEST_CASE("tasks run in order, on another thread with overlap and on this one without") {
  auto const overlap = GENERATE(Overlap::on, Overlap::off);
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("order", overlap);
  struct Log {
    std::vector<int> order;
    std::thread::id thread;
  } log;
  for (int i = 0; i < 1000; ++i) {  // several times around the ring
    as_cpu(*stream).post([&log, i] {
      log.order.push_back(i);
      log.thread = std::this_thread::get_id();
    });
    if (overlap == Overlap::off) {
      REQUIRE(log.order.size() == static_cast<std::size_t>(i + 1));
    }
  }
  stream->synchronize();
  std::vector<int> expected(1000);
  for (int i = 0; i < 1000; ++i) {
    expected[static_cast<std::size_t>(i)] = i;
  }
  CHECK(log.order == expected);
  CHECK((log.thread == std::this_thread::get_id()) == (overlap == Overlap::off));
}

TEST_CASE("the compute stream is the calling thread") {
  auto const device = make_cpu_device();
  int value = 0;
  as_cpu(device->compute()).post([&value] { value = 1; });
  CHECK(value == 1);
  auto const event = device->make_event();
  device->compute().record(*event);
  CHECK(event->done());
}

TEST_CASE("a timeline may end while a stream has spans to add to it") {
  auto const device = make_cpu_device();
  Gate gate;  // must outlive the stream
  auto const stream = device->make_stream("late", Overlap::on);
  std::weak_ptr<SpanLog> log;
  {
    Timeline timeline;
    log = timeline.log();
    device->set_timeline(&timeline);
    gate.hold(*stream);
    stream->begin_span("update", "");
    stream->end_span();
    device->set_timeline(nullptr);
  }
  CHECK(!log.expired());  // the span that the stream has not reached holds it
  gate.open();
  stream->synchronize();
  CHECK(log.expired());
}

TEST_CASE("an event passes when its stream reaches the point, not before") {
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("gate", Overlap::on);
  auto const before = device->make_event(), behind = device->make_event();
  Gate gate;
  stream->record(*before);
  gate.hold(*stream);
  stream->record(*behind);
  gate.entered.wait_for(1);
  CHECK(before->done());
  CHECK_FALSE(behind->done());
  gate.open();
  behind->synchronize();
  CHECK(behind->done());
}

TEST_CASE("a stream waits for the last point that was recorded before the wait was enqueued") {
  auto const device = make_cpu_device();
  auto const first = device->make_stream("first", Overlap::on), second = device->make_stream("second", Overlap::on);
  auto const event = device->make_event();
  Gate early, late;
  early.hold(*first);
  first->record(*event);
  second->wait(*event);  // for the early point
  std::atomic<int> reached{0};
  as_cpu(*second).post([&reached] { reached = 1; });
  late.hold(*first);
  first->record(*event);  // moves the event; that wait must not move with it

  early.entered.wait_for(1);
  CHECK(reached == 0);
  early.open();
  second->synchronize();  // would hang if it waited for the late point
  CHECK(reached == 1);
  CHECK_FALSE(event->done());
  late.open();
  event->synchronize();
  CHECK(event->done());
}

TEST_CASE("recording an event on another stream does not change waits for its old point") {
  auto const device = make_cpu_device();
  auto const slow = device->make_stream("slow", Overlap::on), fast = device->make_stream("fast", Overlap::on);
  auto const waiter = device->make_stream("waiter", Overlap::on);
  auto const event = device->make_event();
  Gate gate;
  std::atomic<int> order{0};
  gate.hold(*slow);
  slow->record(*event);
  waiter->wait(*event);
  as_cpu(*waiter).post([&order] { order = 1; });
  fast->record(*event);
  event->synchronize();
  CHECK(event->done());  // recorded on the fast stream
  CHECK(order == 0);     // the slow stream has not passed its point
  gate.open();
  waiter->synchronize();
  CHECK(order == 1);
}

TEST_CASE("a stream that waits for its own point continues") {
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("self", Overlap::on);
  auto const event = device->make_event();
  stream->record(*event);
  stream->wait(*event);
  stream->synchronize();
  CHECK(event->done());
}

TEST_CASE("memory that a stream wrote before an event is visible after a wait for the event") {
  auto const device = make_cpu_device();
  auto const one = device->make_stream("one", Overlap::on), two = device->make_stream("two", Overlap::on);
  auto const to_two = device->make_event(), to_one = device->make_event();
  std::int64_t value = 0;
  for (int i = 0; i < 3000; ++i) {
    as_cpu(*one).post([&value] { ++value; });
    one->record(*to_two);
    two->wait(*to_two);
    as_cpu(*two).post([&value] { value *= 3; });
    as_cpu(*two).post([&value] { value %= 1'000'003; });
    two->record(*to_one);
    one->wait(*to_one);
  }
  to_one->synchronize();
  std::int64_t expected = 0;
  for (int i = 0; i < 3000; ++i) {
    expected = (expected + 1) * 3 % 1'000'003;
  }
  CHECK(value == expected);
}

TEST_CASE("the time that a stream waits is counted") {
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("slow", Overlap::on), other = device->make_stream("other", Overlap::on);
  auto const event = device->make_event();
  // Repeat until both have waited: on a busy machine they may reach the event after it has passed.
  for (std::chrono::milliseconds slow{40}; slow < std::chrono::seconds{5}; slow *= 2) {
    as_cpu(*stream).post([slow] { std::this_thread::sleep_for(slow); });
    stream->record(*event);
    other->wait(*event);
    device->compute().wait(*event);
    other->synchronize();
    if (device->compute().waited_ms() > 0 && other->waited_ms() > 0) {
      break;
    }
  }
  CHECK(device->compute().waited_ms() > 0);
  CHECK(other->waited_ms() > 0);
  CHECK(stream->waited_ms() == 0);
  double const once = device->compute().waited_ms();
  device->compute().wait(*event);  // has passed
  CHECK(device->compute().waited_ms() == once);
}

TEST_CASE("work that runs inline counts as time of the host") {
  auto const device = make_cpu_device();
  auto const beside = device->make_stream("beside", Overlap::on), in_line = device->make_stream("line", Overlap::off);
  for (auto* const stream : {beside.get(), in_line.get()}) {
    as_cpu(*stream).post([] { std::this_thread::sleep_for(std::chrono::milliseconds{5}); });
    stream->synchronize();
  }
  CHECK(beside->host_ms() == 0);
  CHECK(in_line->host_ms() >= 5);
  CHECK(in_line->waited_ms() == 0);
}

TEST_CASE("a task that throws fails the device: later tasks are skipped, events pass, and every wait throws") {
  auto const overlap = GENERATE(Overlap::on, Overlap::off);
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("bad", overlap), other = device->make_stream("other", Overlap::on);
  auto const before = device->make_event(), behind = device->make_event();
  bool ran = false;
  stream->record(*before);
  as_cpu(*stream).post([] { throw std::runtime_error{"disk on fire"}; });
  as_cpu(*stream).post([&ran] { ran = true; });
  stream->record(*behind);
  CHECK_THROWS_WITH(behind->synchronize(), "disk on fire");
  CHECK(behind->done());
  CHECK_THROWS_WITH(stream->synchronize(), "disk on fire");
  CHECK_THROWS_WITH(device->compute().wait(*behind), "disk on fire");
  CHECK_THROWS_WITH(device->compute().synchronize(), "disk on fire");
  CHECK_THROWS_WITH(other->wait(*behind), "disk on fire");
  as_cpu(*other).post([&ran] { ran = true; });
  CHECK_THROWS_WITH(other->synchronize(), "disk on fire");
  CHECK_FALSE(ran);
  as_cpu(*stream).post([] { throw std::runtime_error{"another"}; });
  CHECK_THROWS_WITH(stream->synchronize(), "disk on fire");  // the first one counts
}

TEST_CASE("a stream that already waits for a failed stream fails too") {
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("bad", Overlap::on), waiter = device->make_stream("waiter", Overlap::on);
  auto const event = device->make_event();
  Gate gate;
  gate.hold(*stream);
  as_cpu(*stream).post([] { throw 42; });
  stream->record(*event);
  waiter->wait(*event);
  bool ran = false;
  as_cpu(*waiter).post([&ran] { ran = true; });
  gate.open();
  CHECK_THROWS_AS(waiter->synchronize(), int);
  CHECK_FALSE(ran);
}

TEST_CASE("a failure spreads to devices that wait for it, and to no other") {
  auto const bad = make_cpu_device(), good = make_cpu_device(), bystander = make_cpu_device();
  auto const stream = bad->make_stream("bad", Overlap::on), waiter = good->make_stream("waiter", Overlap::on);
  auto const event = bad->make_event();
  as_cpu(*stream).post([] { throw std::runtime_error{"far away"}; });
  stream->record(*event);
  waiter->wait(*event);
  CHECK_THROWS_WITH(waiter->synchronize(), "far away");
  CHECK_THROWS_WITH(good->compute().synchronize(), "far away");
  bystander->compute().synchronize();
}

TEST_CASE("streams end after their last task, also if a task failed or other streams wait for them") {
  std::atomic<int> ran{0};
  {
    auto const device = make_cpu_device();
    auto const stream = device->make_stream("last", Overlap::on);
    for (int i = 0; i < 700; ++i) {
      as_cpu(*stream).post([&ran] { ++ran; });
    }
  }
  CHECK(ran == 700);
  {
    auto const device = make_cpu_device();
    auto bad = device->make_stream("bad", Overlap::on);
    auto const waiter = device->make_stream("waiter", Overlap::on);
    auto const event = device->make_event();
    for (int i = 0; i < 700; ++i) {
      as_cpu(*bad).post([] { throw 1; });
    }
    bad->record(*event);
    try {
      waiter->wait(*event);
    } catch (int) {  // if it has failed already
    }
    bad.reset();
    CHECK(event->done());  // events outlive streams
  }
}

TEST_CASE("worker threads log as the rank that created them, and have a name that tools show") {
  this_rank() = {3, 8, ""};
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("gather", Overlap::on);
  this_rank() = {};
  struct Seen {
    int rank = 0;
    char name[16] = {};
  } seen;
  as_cpu(*stream).post([&seen] {
    seen.rank = this_rank().rank;
    pthread_getname_np(pthread_self(), seen.name, sizeof seen.name);
  });
  stream->synchronize();
  CHECK(seen.rank == 3);
  CHECK(std::string{seen.name} == "gather/3");
}

TEST_CASE("a stream or an event of another device is refused") {
  struct OtherStream final : Stream {
    void wait(Event const&) override {}
    void record(Event&) override {}
    void synchronize() override {}
    [[nodiscard]] double waited_ms() const override { return 0; }
    [[nodiscard]] double host_ms() const override { return 0; }
    void begin_span(std::string_view, std::string_view) override {}
    void end_span() override {}
  } stream;
  struct OtherEvent final : Event {
    [[nodiscard]] bool done() const override { return true; }
    void synchronize() const override {}
  } event;
  CHECK_THROWS_AS(as_cpu(stream), ContractError);
  auto const device = make_cpu_device();
  CHECK_THROWS_AS(device->compute().wait(event), ContractError);
  CHECK_THROWS_WITH(device->compute().record(event), Contains("another device"));
  CHECK_THROWS_AS(device->kernels().fill(stream, nullptr, 0, 0), ContractError);
}

}  // namespace
}  // namespace zeroth::device
