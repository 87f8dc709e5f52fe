// SPDX-License-Identifier: Apache-2.0
/// Memory, streams and events of the CUDA device.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cuda/contribute.hpp"
#include "cuda/gate.hpp"
#include "cuda/gpus.hpp"
#include "device/cuda_event.hpp"
#include "device/kernels.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/adapters/cuda.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/timeline.hpp"

namespace zeroth::testing {
namespace {

using device::Category;
using device::Overlap;
using std::chrono::milliseconds;

/// The contents of a device's memory.
std::vector<std::byte> contents_of(device::Device& device, device::Memory const& memory) {
  auto const host = device.allocate_host(memory.bytes());
  device.kernels().copy(device.compute(), host->data(), memory.data(), memory.bytes());
  device.compute().synchronize();
  return {host->data(), host->data() + host->bytes()};
}

int priority_of(device::Stream& stream) {
  int priority = 0;
  REQUIRE(cudaStreamGetPriority(device::as_cuda(stream).get(), &priority) == cudaSuccess);
  return priority;
}

bool all_zero(std::vector<std::byte> const& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte each) { return each == std::byte{0}; });
}

}  // namespace

TEST_CASE("a device allocates zero-filled, aligned memory and counts it in its ledger") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  CHECK(device->name() == "cuda:0");
  auto memory = device->allocate(Category::optimizer, 10'000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
  CHECK(all_zero(contents_of(*device, *memory)));
  CHECK(device->ledger().live().optimizer == 10'000);
  memory.reset();
  CHECK(device->ledger().live().optimizer == 0);
  CHECK(device->ledger().peak().optimizer == 10'000);
  auto const none = device->allocate(Category::slots, 0);
  CHECK(none->bytes() == 0);
  CHECK_THROWS_AS(device->allocate(Category::slots, -1), ContractError);
}

#ifndef ZEROTH_ON_GPU
TEST_CASE("memory is aligned wherever CUDA's blocks start, and is freed") {
  for (std::size_t const offset : {0U, 256U}) {
    fake_cuda::reset({.block_offset = offset});
    auto const device = device::make_cuda_device(0);
    auto memory = device->allocate(Category::optimizer, 10'000);
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
    CHECK(fake_cuda::bytes_in_use() >= 10'000);
    memory.reset();
    CHECK(fake_cuda::bytes_in_use() == 0);
  }
}
#endif

/// Blocks of a program's pool that a device has allocated, and the streams that it passed.
struct Pool {
  std::mutex mutex;
  std::map<void*, std::size_t> blocks;
  std::set<cudaStream_t> streams;
  std::int64_t taken = 0;

  void serve() {
    set_cuda_allocator(
        [this](std::size_t bytes, cudaStream_t stream) -> void* {
          void* block = nullptr;
          if (cudaMalloc(&block, bytes) != cudaSuccess) {
            throw std::bad_alloc{};
          }
          std::lock_guard const lock{mutex};
          blocks[block] = bytes;
          streams.insert(stream);
          taken += static_cast<std::int64_t>(bytes);
          return block;
        },
        [this](void* block, std::size_t bytes, cudaStream_t stream) {
          std::lock_guard const lock{mutex};
          if (blocks.at(block) == bytes && streams.contains(stream)) {
            blocks.erase(block);
          }
          static_cast<void>(cudaFree(block));
        });
  }
  ~Pool() { device::set_cuda_allocator({}); }
};

TEST_CASE("a device takes its memory from the program's allocator, on its compute stream, and frees all of it") {
  begin_on({});
  Pool pool;
  pool.serve();
  auto device = device::make_cuda_device(0);
  device::set_cuda_allocator({});  // applies to devices made after this call
  auto memory = device->allocate(Category::optimizer, 10'000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
  CHECK(all_zero(contents_of(*device, *memory)));
  CHECK(device->ledger().live().optimizer == 10'000);
  CHECK(pool.blocks.size() == 1);
  CHECK(pool.streams == std::set{device::as_cuda(device->compute()).get()});
  auto const others = pool.taken;
  auto const plain = device::make_cuda_device(0);
  auto const beside = plain->allocate(Category::optimizer, 10'000);
  CHECK(pool.taken == others);
  memory.reset();
  CHECK(pool.blocks.empty());
}

TEST_CASE("an engine takes exactly the planned memory from the program's allocator") {
  begin_on({});
  Pool pool;
  pool.serve();
  SmallModel const small;
  std::int64_t planned = 0;
  auto const outcome = run_job(
      2,
      [&](Job& job) {
        Engine<float> engine{job, small.model, small_config(3)};
        static_cast<void>(step_on_gpu(engine, small));
        engine.finish();
        if (job.rank() == 0) {
          planned = engine.planned().total();
        }
      },
      {}, [](int) { return device::make_cuda_device(0); });
  REQUIRE(messages_of(outcome) == "");
  CHECK(pool.blocks.empty());
  CHECK(pool.taken >= 2 * planned);
  CHECK(left_on_gpus() == "");
}

TEST_CASE("an error of the program's allocator is passed on in its words") {
  begin_on({});
  using Catch::Contains;
  auto const refused = [](auto const& allocate) {
    set_cuda_allocator(allocate, [](void*, std::size_t, cudaStream_t) {});
    auto const device = device::make_cuda_device(0);
    device::set_cuda_allocator({});
    return thrown<SystemError>([&] { static_cast<void>(device->allocate(Category::slots, 100)); });
  };
  CHECK_THAT(refused([](std::size_t, cudaStream_t) -> void* { throw std::runtime_error{"the pool is full"}; }),
             Contains("the program's allocator on cuda:0 refused 100 bytes for slots: the pool is full"));
  CHECK_THAT(refused([](std::size_t, cudaStream_t) -> void* { return nullptr; }),
             Contains("refused 100 bytes for slots: it returned null"));
  CHECK_THAT(thrown<ContractError>([] {
               device::set_cuda_allocator({[](std::size_t, device::StreamRef) -> void* { return nullptr; }, {}});
             }),
             Contains("one of allocate and deallocate is empty"));
}

TEST_CASE("host memory is zero-filled, aligned and in no ledger") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const memory = device->allocate_host(5000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 == 0);
  CHECK(std::all_of(memory->data(), memory->data() + 5000, [](std::byte each) { return each == std::byte{0}; }));
  CHECK(device->ledger().live().total() == 0);
  CHECK(device->allocate_host(0)->bytes() == 0);
  CHECK_THROWS_AS(device->allocate_host(-1), ContractError);
}

TEST_CASE("calls return while the GPU is busy; synchronize() waits") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const stream = device->make_stream("test", Overlap::on);
  auto const memory = device->allocate(Category::scratch, 64);
  auto const seen = device->allocate_host(64);
  auto const event = device->make_event();
  CHECK(event->done());  // never recorded
  event->synchronize();
  Gate gate{*device};
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

TEST_CASE("a sum of one input is that input, and needs no work in place") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto& stream = device::as_cuda(device->compute());
  auto const from = device->allocate(Category::scratch, 64), to = device->allocate(Category::scratch, 64);
  device->kernels().fill(stream, from->data(), 64, 5);
  void const* const input = from->data();
  void* const apart = to->data();
  stream.fold(Reduce::sum, &apart, 1, &input, 1, Dtype::bf16, 4, 8, 1);
  auto const sum = contents_of(*device, *to);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    CHECK(sum[i] == (i >= 8 && i < 24 ? std::byte{5} : std::byte{0}));
  }
#ifndef ZEROTH_ON_GPU
  auto const before = fake_cuda::calls("launch");
#endif
  void* const in_place = from->data();
  stream.fold(Reduce::sum, &in_place, 1, &input, 1, Dtype::bf16, 0, 32, 1);
#ifndef ZEROTH_ON_GPU
  CHECK(fake_cuda::calls("launch") == before);
#endif
  CHECK(contents_of(*device, *from) == std::vector<std::byte>(64, std::byte{5}));
}

TEST_CASE("a wait is for the last point that was recorded before it") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const one = device->make_stream("one", Overlap::on);
  auto const two = device->make_stream("two", Overlap::on);
  auto const event = device->make_event();
  Gate first{*device}, second{*device};
  std::atomic<int> reached{0};
  two->wait(*event);  // never recorded: no wait
  post_on_gpu(*two, [&] { reached = 1; });
  two->synchronize();
  CHECK(reached == 1);
  first.enqueue_on(*one);
  one->record(*event);
  two->wait(*event);
  post_on_gpu(*two, [&] { reached = 2; });
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

TEST_CASE("a wait is for its own record, also if another stream has passed a later one") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const slow = device->make_stream("slow", Overlap::on);
  auto const fast = device->make_stream("fast", Overlap::on);
  auto const waiting = device->make_stream("waiting", Overlap::on);
  auto const event = device->make_event();
  Gate gate{*device};
  std::atomic<int> reached{0};
  gate.enqueue_on(*slow);
  slow->record(*event);
  waiting->wait(*event);
  post_on_gpu(*waiting, [&] { reached = 1; });
  fast->record(*event);
  event->synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // time for a stream that does not wait to continue
  CHECK(reached == 0);
  gate.open();
  waiting->synchronize();
  CHECK(reached == 1);
}

TEST_CASE("without overlap, work is in order with the caller's") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const stream = device->make_stream("test", Overlap::off);
  CHECK(stream->native().native == device->compute().native().native);
  CHECK(device->make_stream("beside", Overlap::on)->native().native != device->compute().native().native);
}

TEST_CASE("side streams have priority over the compute stream") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  int least = 0, greatest = 0;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  REQUIRE(greatest < least);
  CHECK(priority_of(device->compute()) == least);
  CHECK(priority_of(*device->make_stream("gather", Overlap::on)) == greatest);
  CHECK(priority_of(*device->make_stream("in line", Overlap::off)) == least);
}

TEST_CASE("events that only order work record no time") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const beside = device->make_stream("beside", Overlap::on);
#ifndef ZEROTH_ON_GPU
  auto const timed = fake_cuda::timed_events_made();
#endif
  auto const of_device = device->make_event();
  auto const of_stream = device::as_cuda(*beside).make_event();
#ifndef ZEROTH_ON_GPU
  CHECK(fake_cuda::calls("cudaEventCreateWithFlags") >= 2);
  CHECK(fake_cuda::timed_events_made() == timed);
#endif
  for (auto* const event : {of_device.get(), of_stream.get()}) {
    beside->record(*event);
    event->synchronize();
    auto* const raw = device::as_cuda(*event).get();
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, raw, raw) == cudaErrorInvalidResourceHandle);
  }
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("waits of the compute stream, and work without overlap, are measured once they have passed") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const beside = device->make_stream("beside", Overlap::on);
  auto const in_line = device->make_stream("in line", Overlap::off);
  auto const event = device->make_event();
  auto const sleep = [] { std::this_thread::sleep_for(milliseconds{30}); };
  Gate gate{*device};
  std::atomic<bool> comes{false};
  gate.enqueue_on(*beside);
  beside->record(*event);
  post_on_gpu(device->compute(), [&comes] { comes = true; });
  device->compute().wait(*event);
  while (!comes) {
    std::this_thread::yield();
  }
  CHECK(device->compute().waited_ms() == 0);
  std::this_thread::sleep_for(milliseconds{100});
  gate.open();
  device->compute().synchronize();
  CHECK(device->compute().waited_ms() > 20);
  CHECK(beside->waited_ms() == 0);
  CHECK(device->compute().host_ms() == 0);
  in_line->begin_span("reduce", "a");
  post_on_gpu(*in_line, sleep);
  in_line->end_span();
  in_line->synchronize();
  CHECK(in_line->host_ms() > 29);  // the GPU's clock may differ a little from the host's
  CHECK(beside->host_ms() == 0);
}

#ifndef ZEROTH_ON_GPU  // the duration of events is unknown on a GPU
TEST_CASE("waits that did not wait count no time, and others count without their events") {
  fake_cuda::reset({.timed_event_us = 3});
  auto const device = device::make_cuda_device(0);
  auto const beside = device->make_stream("beside", Overlap::on);
  auto const in_line = device->make_stream("in line", Overlap::off);
  auto const event = device->make_event();
  auto& compute = device->compute();
  for (int i = 0; i < 150; ++i) {
    beside->record(*event);
    beside->synchronize();
    compute.wait(*event);
    in_line->begin_span("reduce", "a");
    in_line->end_span();
  }
  compute.synchronize();
  CHECK(compute.waited_ms() == 0);
  CHECK(in_line->host_ms() == 0);
  post_on_gpu(*beside, [now = fake_cuda::time_us()] {
    while (fake_cuda::time_us() == now) {  // until the compute stream has come to its wait
      std::this_thread::yield();
    }
    fake_cuda::pass_time(30'000);
  });
  beside->record(*event);
  compute.wait(*event);
  compute.synchronize();
  CHECK(compute.waited_ms() == Approx(30));
  in_line->begin_span("reduce", "a");
  post_on_gpu(*in_line, [] { fake_cuda::pass_time(2000); });
  in_line->end_span();
  in_line->synchronize();
  CHECK(in_line->host_ms() == Approx(2));
  post_on_gpu(*beside, [now = fake_cuda::time_us()] {
    while (fake_cuda::time_us() == now) {
      std::this_thread::yield();
    }
    fake_cuda::pass_time(7000);
  });
  beside->record(*event);
  in_line->wait(*event);  // no part of the compute stream's waits
  in_line->synchronize();
  CHECK(in_line->host_ms() == Approx(9));
  CHECK(compute.waited_ms() == Approx(30));
}
#endif

#ifndef ZEROTH_ON_GPU  // a GPU's driver holds less work, and makes the host wait beyond that
TEST_CASE("all waits are measured, however far the host is ahead") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const beside = device->make_stream("beside", Overlap::on);
  auto const event = device->make_event();
  auto& compute = device->compute();
  Gate behind{*device}, ahead{*device};
  behind.enqueue_on(compute);
  constexpr int count = 3000;
  std::vector<int> written(count);
  int seen = 0;
  std::atomic<bool> at_last{false};
  for (int i = 0; i < count; ++i) {
    if (i == count - 1) {
      ahead.enqueue_on(*beside);
      post_on_gpu(compute, [&at_last] { at_last = true; });
    }
    post_on_gpu(*beside, [at = &written[static_cast<std::size_t>(i)]] { *at = 1; });
    beside->record(*event);
    compute.wait(*event);
    post_on_gpu(compute, [&seen, at = &written[static_cast<std::size_t>(i)]] { seen += *at; });
  }
  behind.open();
  while (!at_last) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(milliseconds{100});
  ahead.open();
  compute.synchronize();
  CHECK(seen == count);
  CHECK(compute.waited_ms() > 50);  // the last wait alone takes that long
  auto const made = fake_cuda::calls("cudaEventCreateWithFlags");
  for (int i = 0; i < count; ++i) {
    compute.wait(*event);
    compute.synchronize();
  }
  CHECK(fake_cuda::calls("cudaEventCreateWithFlags") == made);
}
#endif

TEST_CASE("a timeline gets the spans and waits of all streams") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  auto const gather = device->make_stream("gather", Overlap::on);
  auto const event = device->make_event();
  Timeline timeline;
  device->set_timeline(&timeline);
  Gate gate{*device};
  std::atomic<bool> comes{false};
  gate.enqueue_on(*gather);
  {
    device::SpanScope const span{*gather, "gather", "block 1"};
    post_on_gpu(*gather, [] { std::this_thread::sleep_for(milliseconds{20}); });
  }
  gather->record(*event);
  post_on_gpu(device->compute(), [&comes] { comes = true; });
  device->compute().wait(*event);
  while (!comes) {  // or there may be nothing left to wait for
    std::this_thread::yield();
  }
  gate.open();
  {
    device::SpanScope const span{device->compute(), "forward", "block 1"};
    post_on_gpu(device->compute(), [] { std::this_thread::sleep_for(milliseconds{2}); });
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

TEST_CASE("other threads add spans while the device flushes them, and none is lost") {
  begin_on({});
  auto const device = device::make_cuda_device(0);
  Timeline timeline;
  device->set_timeline(&timeline);
  constexpr int threads = 3;
  constexpr int count = 200;
  std::vector<std::unique_ptr<device::Stream>> streams;
  for (int i = 0; i < threads; ++i) {
    streams.push_back(device->make_stream("save", Overlap::on));
  }
  std::atomic<int> at_work{threads};
  {
    std::vector<std::jthread> workers;
    for (auto& stream : streams) {
      workers.emplace_back([&stream, &at_work] {
        for (int i = 0; i < count; ++i) {
          device::SpanScope const span{*stream, "save", "block 1"};
        }
        --at_work;
      });
    }
    while (at_work > 0) {
      device->flush_timeline();
    }
  }
  device->flush_timeline();
  CHECK(timeline.spans().size() == std::size_t{threads} * count);
  auto late = std::make_unique<device::SpanScope>(*streams[0], "save", "block 2");
  device->set_timeline(nullptr);
  late.reset();
  CHECK(timeline.spans().size() == std::size_t{threads} * count);
}

TEST_CASE("a thread without a current GPU can add spans of any GPU's stream", "[two GPUs]") {
  begin_on({.count = 2});
  auto const device = device::make_cuda_device(1);
  auto const stream = device->make_stream("save", Overlap::on);
  Timeline timeline;
  device->set_timeline(&timeline);
  int gpu = -1;
  std::jthread{[&] {
    { device::SpanScope const span{*stream, "save", "block 1"}; }
    cudaGetDevice(&gpu);
  }}.join();
  stream->synchronize();  // throws the first error
  device->set_timeline(nullptr);
  CHECK(timeline.spans().size() == 1);
  CHECK(gpu == 0);  // the current GPU of a new thread
}

TEST_CASE("a stream waits for a stream with the same handle on another GPU or of another rank", "[two GPUs]") {
  begin_on({.count = 2});
  {
    device::CudaContext mine{0}, elsewhere{1}, neighbour{0};
    device::CudaSpans spans{mine};
    device::CudaStream const stream{"test", device::CudaStream::Role::beside, mine, spans};
    device::CudaEvent event{mine};
    CHECK(event.awaited_by(elsewhere, stream.get()) == nullptr);  // nothing was recorded
    event.record(mine, stream.get());
    CHECK(event.awaited_by(mine, stream.get()) == nullptr);
    CHECK(event.awaited_by(mine, nullptr) == event.get());
    CHECK(event.awaited_by(elsewhere, stream.get()) == event.get());
    CHECK(event.awaited_by(neighbour, stream.get()) == event.get());
  }
  CHECK(left_on_gpus().empty());
}

}  // namespace zeroth::testing
