/// No allocation once a program has shown what it does.
#include <atomic>
#include <cstdlib>
#include <deque>
#include <new>

#include "comm/local_ranks.hpp"
#include "comm/trial.hpp"
#include "support/catch.hpp"

namespace {

std::atomic<std::int64_t> allocations{0};

void* allocate(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const data = std::malloc(bytes > 0 ? bytes : 1)) {
    return data;
  }
  throw std::bad_alloc{};
}

void* allocate(std::size_t bytes, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  auto const step = static_cast<std::size_t>(alignment);
  if (void* const data = std::aligned_alloc(step, (bytes + step - 1) / step * step)) {
    return data;
  }
  throw std::bad_alloc{};
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, alignment); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("a steady program allocates nothing in its communicators") {
  constexpr int world = 3;
  std::int64_t allocated = -1;
  auto const problems = run_ranks(world, [&](Rank& rank) {
    auto& communicator = rank.communicator;
    int const me = communicator.rank();
    auto const part = communicator.split(0, me, "second");
    auto const one = rank.device.make_stream("one", device::Overlap::on);
    auto const other = rank.device.make_stream("other", device::Overlap::on);
    std::deque<Trial> trials;
    std::vector<Collective> list;
    for (auto const operation : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                 Operation::broadcast, Operation::all_to_all, Operation::gather, Operation::scatter}) {
      list.push_back(trials.emplace_back(Probe{operation, Dtype::bf16, 1009}, me, world).collective());
    }
    std::vector<float> sent(100), received(100);
    list.push_back({Operation::send, sent.data(), nullptr, 100, Dtype::fp32, (me + 1) % world});
    list.push_back({Operation::receive, nullptr, received.data(), 100, Dtype::fp32, (me + 2) % world});
    auto const step = [&] {
      for (int i = 0; i < 10; ++i) {
        communicator.submit(*one, {"step", "first"}, list);
        part->submit(*other, {"step", "second"}, std::span{list}.first(7));
      }
      communicator.barrier(*one, {"step", ""});
      part->barrier(*other, {"step", ""});
    };
    step();
    step();
    communicator.barrier(*one, {"count", ""});
    auto const before = allocations.load();
    communicator.barrier(*one, {"count", ""});
    for (int i = 0; i < 20; ++i) {
      step();
    }
    auto const after = allocations.load();
    communicator.barrier(*one, {"count", ""});
    if (me == 0) {
      allocated = after - before;
    }
    std::string problem;
    for (auto const& trial : trials) {
      problem += trial.problem();
    }
    return problem;
  });
  for (auto const& problem : problems) {
    CHECK(problem == "");
  }
  CHECK(allocated == 0);
  CHECK(allocations.load() > 0);  // the count does count
}

}  // namespace
}  // namespace zeroth::comm::conformance
