// SPDX-License-Identifier: Apache-2.0
/// No allocation once a program has run all of its operations.
#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <thread>

#include "comm/tcp_ranks.hpp"
#include "comm/transaction.hpp"
#include "comm/trial.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

constexpr int world = 3;

/// Runs on every rank; rank 0 counts the allocations of all ranks.
std::string run_steadily(Rank& rank, std::int64_t& allocated) {
  auto& communicator = rank.communicator;
  int const me = communicator.rank();
  auto const part = communicator.split(0, me, "second");
  auto const one = rank.device.make_stream("one", device::Overlap::on);
  auto const other = rank.device.make_stream("other", device::Overlap::on);
  std::deque<Trial> trials;
  std::vector<Collective> list, list_of_part;
  for (auto const operation : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                               Operation::broadcast, Operation::all_to_all, Operation::gather, Operation::scatter}) {
    for (auto* each : {&list, &list_of_part}) {
      each->push_back(trials.emplace_back(*rank.memory, Probe{operation, Dtype::bf16, 1009}, me, world).collective());
    }
  }
  std::vector<float> sent(100), received(100);
  list.push_back({Operation::send, sent.data(), nullptr, 100, Dtype::fp32, (me + 1) % world});
  list.push_back({Operation::receive, nullptr, received.data(), 100, Dtype::fp32, (me + 2) % world});
  auto const step = [&] {
    for (int i = 0; i < 10; ++i) {
      communicator.submit(*one, {"step", "first"}, list);
      part->submit(*other, {"step", "second"}, list_of_part);
    }
    communicator.barrier(*one, {"step", ""});
    part->barrier(*other, {"step", ""});
  };
  step();
  for (int late = 0; late < world; ++late) {  // the others run as far ahead as they can: queues are then longest
    communicator.barrier(*one, {"late", ""});
    one->synchronize();
    other->synchronize();
    if (me == late) {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    }
    step();
  }
  communicator.barrier(*one, {"count", ""});
  auto const before = test::allocation_count();
  communicator.barrier(*one, {"count", ""});
  for (int i = 0; i < 20; ++i) {
    step();
  }
  auto const after = test::allocation_count();
  communicator.barrier(*one, {"count", ""});
  if (me == 0) {
    allocated = after - before;
  }
  std::string problem;
  for (auto const& trial : trials) {
    problem += trial.problem();
  }
  return problem;
}

TEST_CASE("communicators allocate nothing in steady state") {
  std::int64_t allocated = -1;
  auto const body = [&](Rank& rank) { return run_steadily(rank, allocated); };
  auto const way = GENERATE(0, 1, 2);
  CAPTURE(way);
  for (auto const& problem :
       way == 0 ? run_ranks(world, body)
                : run_tcp_ranks(world, way == 1 ? WithinMachine::memory : WithinMachine::network, body)) {
    CHECK(problem == "");
  }
  CHECK(allocated == 0);
  CHECK(test::allocation_count() > 0);  // the counter works
}

TEST_CASE("after the longest list of collectives, no transaction allocates") {
  std::array const job_ranks{0};
  TransactionPool pool{job_ranks};
  std::vector<Collective> const longest(40, Collective{Operation::barrier, nullptr, nullptr, 0, Dtype::byte, 0});
  pool.recycle(pool.take({"step", ""}, longest, {}));
  std::vector<Transaction*> taken;
  taken.reserve(8);  // as many as are ever queued at a time
  auto const before = test::allocation_count();
  for (int i = 0; i < 8; ++i) {
    taken.push_back(&pool.take({"step", ""}, longest, {}));
  }
  for (auto* const each : taken) {
    each->records.assign(longest.size(), 0);
  }
  CHECK(test::allocation_count() == before);
  std::ranges::for_each(taken, [&](Transaction* each) { pool.recycle(*each); });
}

}  // namespace
}  // namespace zeroth::comm::conformance
