/// Memory, streams and events of the CUDA device.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda_event.hpp"
#include "device/cuda_stream.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda/fake_cuda.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cuda.hpp"
#include "zeroth/device/kernels.hpp"
#include "zeroth/device/timeline.hpp"

namespace zeroth::testing {
namespace {

using device::Category;
using device::Overlap;
using std::chrono::milliseconds;

/// Work that ends when it is let go.
class Gate {
 public:
  void enqueue_on(device::Stream& stream) {
    static_cast<void>(fake_cuda::enqueue(device::as_cuda(stream).get(), [this] {
      while (!open_) {
        std::this_thread::sleep_for(milliseconds{1});
      }
    }));
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

void work(device::Stream& stream, std::function<void()> const& what) {
  static_cast<void>(fake_cuda::enqueue(device::as_cuda(stream).get(), what));
}

}  // namespace

TEST_CASE("a device hands out zero-filled, aligned memory and keeps the book of it") {
  for (std::size_t const offset : {0, 256}) {
    fake_cuda::reset({.block_offset = offset});
    auto const device = device::make_cuda_device(0);
    CHECK(device->name() == "cuda:0");
    auto memory = device->allocate(Category::optimizer, 10'000);
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
    CHECK(std::all_of(memory->data(), memory->data() + 10'000, [](std::byte each) { return each == std::byte{0}; }));
    CHECK(device->ledger().live().optimizer == 10'000);
    CHECK(fake_cuda::bytes_in_use() >= 10'000);
    memory.reset();
    CHECK(device->ledger().live().optimizer == 0);
    CHECK(device->ledger().peak().optimizer == 10'000);
    CHECK(fake_cuda::bytes_in_use() == 0);
    auto const none = device->allocate(Category::slots, 0);
    CHECK(none->bytes() == 0);
    CHECK_THROWS_AS(device->allocate(Category::slots, -1), ContractError);
  }
}

TEST_CASE("memory of the host is zero-filled, aligned and in no ledger") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const memory = device->allocate_host(5000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
  CHECK(std::all_of(memory->data(), memory->data() + 5000, [](std::byte each) { return each == std::byte{0}; }));
  CHECK(device->ledger().live().total() == 0);
  CHECK(fake_cuda::bytes_in_use() == 0);
  CHECK(device->allocate_host(0)->bytes() == 0);
  CHECK_THROWS_AS(device->allocate_host(-1), ContractError);
}

TEST_CASE("calls return while the GPU is busy; synchronize() waits") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const stream = device->make_stream("test", Overlap::on);
  auto const memory = device->allocate(Category::scratch, 64);
  auto const seen = device->allocate_host(64);
  auto const event = device->make_event();
  CHECK(event->done());  // never recorded
  event->synchronize();
  Gate gate;
  gate.enqueue_on(*stream);
  device->kernels().fill(*stream, memory->data(), 64, 5);
  device->kernels().copy(*stream, seen->data(), memory->data(), 64);
  stream->record(*event);
  CHECK_FALSE(event->done());
  CHECK(seen->data()[63] == std::byte{0});
  std::thread opener{[&] {
    std::this_thread::sleep_for(milliseconds{20});
    gate.open();
  }};
  event->synchronize();
  CHECK(event->done());
  CHECK(seen->data()[63] == std::byte{5});
  stream->synchronize();
  opener.join();
}

TEST_CASE("a wait is for the point that was recorded last before it") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const one = device->make_stream("one", Overlap::on);
  auto const two = device->make_stream("two", Overlap::on);
  auto const event = device->make_event();
  Gate first, second;
  std::atomic<int> reached{0};
  two->wait(*event);  // never recorded: no wait
  work(*two, [&] { reached = 1; });
  two->synchronize();
  CHECK(reached == 1);
  first.enqueue_on(*one);
  one->record(*event);
  two->wait(*event);
  work(*two, [&] { reached = 2; });
  second.enqueue_on(*one);
  one->record(*event);  // does not disturb the wait before
  CHECK(reached == 1);
  first.open();
  two->synchronize();
  CHECK(reached == 2);
  CHECK_FALSE(event->done());
  second.open();
  event->synchronize();
}

TEST_CASE("without overlap, work is in order with the caller's") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const stream = device->make_stream("test", Overlap::off);
  CHECK(stream->native().native == device->compute().native().native);
  CHECK(device->make_stream("beside", Overlap::on)->native().native != device->compute().native().native);
}

TEST_CASE("waits of the compute stream, and work that overlaps nothing, are measured once they have passed") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const beside = device->make_stream("beside", Overlap::on);
  auto const in_line = device->make_stream("in line", Overlap::off);
  auto const event = device->make_event();
  auto const sleep = [] { std::this_thread::sleep_for(milliseconds{30}); };
  work(*beside, sleep);
  beside->record(*event);
  device->compute().wait(*event);
  CHECK(device->compute().waited_ms() < 30);
  device->compute().synchronize();
  CHECK(device->compute().waited_ms() > 10);
  CHECK(beside->waited_ms() == 0);
  CHECK(device->compute().host_ms() == 0);
  in_line->begin_span("reduce", "a");
  work(*in_line, sleep);
  in_line->end_span();
  in_line->synchronize();
  CHECK(in_line->host_ms() >= 30);
  CHECK(beside->host_ms() == 0);
}

TEST_CASE("more waits than are measured at a time are waits all the same") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const beside = device->make_stream("beside", Overlap::on);
  auto const event = device->make_event();
  Gate gate;
  gate.enqueue_on(device->compute());
  constexpr int count = 2000;
  std::vector<int> written(count);
  int seen = 0;
  for (int i = 0; i < count; ++i) {
    work(*beside, [&written, i] { written[static_cast<std::size_t>(i)] = 1; });
    beside->record(*event);
    device->compute().wait(*event);
    work(device->compute(), [&, i] { seen += written[static_cast<std::size_t>(i)]; });
  }
  gate.open();
  device->compute().synchronize();
  CHECK(seen == count);
  CHECK(device->compute().waited_ms() >= 0);
}

TEST_CASE("a timeline gets the spans and waits of all streams") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const gather = device->make_stream("gather", Overlap::on);
  auto const event = device->make_event();
  Timeline timeline;
  device->set_timeline(&timeline);
  {
    device::SpanScope const span{*gather, "gather", "block 1"};
    work(*gather, [] { std::this_thread::sleep_for(milliseconds{20}); });
  }
  gather->record(*event);
  device->compute().wait(*event);
  {
    device::SpanScope const span{device->compute(), "forward", "block 1"};
    work(device->compute(), [] { std::this_thread::sleep_for(milliseconds{2}); });
  }
  device->set_timeline(nullptr);
  auto const spans = timeline.spans();
  REQUIRE(spans.size() == 3);
  auto const find = [&](std::string const& what) {
    return *std::find_if(spans.begin(), spans.end(), [&](Span const& each) { return each.what == what; });
  };
  CHECK(find("gather").stream == "gather");
  CHECK(find("gather").unit == "block 1");
  CHECK(find("gather").end_us - find("gather").begin_us > 15'000);
  CHECK(find("wait").stream == "compute");
  CHECK(find("forward").begin_us >= find("wait").end_us - 100);
  device::SpanScope const unseen{*gather, "gather", "block 2"};
  CHECK(timeline.spans().size() == 3);
}

TEST_CASE("a stream waits for a stream of the same handle on another GPU, or of another rank") {
  fake_cuda::reset({.gpus = 2});
  {
    device::CudaContext mine{0}, elsewhere{1}, neighbour{0};
    device::CudaSpans spans{mine};
    device::CudaStream const stream{"test", device::CudaStream::Role::beside, mine, spans};
    device::CudaEvent event{mine};
    CHECK(event.precedes(elsewhere, stream.get()));  // nothing was recorded
    event.record(stream.get());
    CHECK(event.precedes(mine, stream.get()));
    CHECK_FALSE(event.precedes(mine, nullptr));
    CHECK_FALSE(event.precedes(elsewhere, stream.get()));
    CHECK_FALSE(event.precedes(neighbour, stream.get()));
  }
  CHECK(fake_cuda::leftovers() == "");
}

}  // namespace zeroth::testing
