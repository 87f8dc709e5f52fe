// SPDX-License-Identifier: Apache-2.0
// Ranks are threads, each with its own session, sockets and store: like processes, but within one.
#include <fcntl.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "comm/tcp/shared_queues.hpp"
#include "comm/tcp_ranks.hpp"
#include "device/page_memory.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm::conformance {
namespace {

enum class Way : std::uint8_t { registered, memory, network };
Way one_way() { return GENERATE(Way::registered, Way::memory, Way::network); }
WithinMachine within_machine(Way way) { return way == Way::network ? WithinMachine::network : WithinMachine::memory; }
Platform platform(Way way) {
  auto const buffers = way == Way::registered ? device::CpuBuffers::registrable : device::CpuBuffers::plain;
  return {.make_device = [buffers](int) { return device::make_cpu_device(buffers); }};
}
WithinMachine either_way() { return GENERATE(WithinMachine::memory, WithinMachine::network); }
char const* name_of(Way way) {
  return way == Way::registered ? "registered memory" : way == Way::memory ? "memory that nobody knows" : "network";
}
char const* name_of(WithinMachine within) {
  return name_of(within == WithinMachine::memory ? Way::memory : Way::network);
}

TEST_CASE("the tcp communicator conforms over mapped memory, and over the network within and between machines") {
  auto const way = one_way();
  int const world = testing::sanitized ? GENERATE(1, 3) : GENERATE(1, 2, 3, 4);
  bool const check = world != 2;
  // The code that moves bytes is the same for every case.
  auto const cases = way == Way::memory ? conformance_cases() : testing::sampled(conformance_cases(), 3);
  auto const conform = [&](Rank& rank) {
    auto const known = rank.communicator.register_memory(rank.memory->first_piece());
    if ((known != nullptr) != (way == Way::registered && world > 1)) {
      return std::string{"memory was registered, or was not"};
    }
    std::vector<std::byte> staging(
        static_cast<std::size_t>(staging_bytes(Transport::tcp, world, Dtype::fp64, largest_count)));
    rank.communicator.set_staging(staging);
    rank.communicator.set_options({std::chrono::minutes{3}, check});
    auto const problems = problems_of(cases, rank);
    rank.communicator.set_staging({});
    return problems;
  };
  for (auto const& problem : run_tcp_ranks(world, within_machine(way), conform, {}, platform(way))) {
    CAPTURE(name_of(way), world);
    CHECK(problem == "");
  }
}

TEST_CASE("faults end every rank over tcp, and name the rank that is missing or differs") {
  auto const within = either_way();
  int const world = GENERATE(2, 3);
  for (auto const& each : fault_cases()) {
    auto const problems =
        run_tcp_ranks(world, within, [&](Rank& rank) { return problem_of(each, rank); }, {.check = true});
    for (auto const& problem : problems) {
      CAPTURE(name_of(within), world, each.name);
      CHECK(problem == "");
    }
  }
}

TEST_CASE("reductions in many chunks are exact over tcp") {
  auto const way = one_way();
  constexpr int world = 3;
  // 8 MiB of staging hold a part of this; the count leaves a remainder that fits no slice.
  constexpr std::int64_t count = (std::int64_t{3} << 20) + 2;
  auto const reduce = [&](Rank& rank) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    auto const memory = rank.device.allocate(device::Category::gradients, count * bytes_of(Dtype::int32));
    auto const known = rank.communicator.register_memory(*memory);
    std::span const data{reinterpret_cast<std::int32_t*>(memory->data()), static_cast<std::size_t>(count)};
    for (std::int64_t i = 0; i < count; ++i) {
      data[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * (rank.communicator.rank() + 1));
    }
    rank.communicator.all_reduce(*stream, {"test", "large"}, data.data(), data.data(), count, Dtype::int32);
    stream->synchronize();
    std::int64_t differing = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      differing += data[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(i * 6) ? 0 : 1;
    }
    return differing == 0 ? std::string{} : std::to_string(differing);
  };
  for (auto const& problem : run_tcp_ranks(world, within_machine(way), reduce, {}, platform(way))) {
    CAPTURE(name_of(way));
    CHECK(problem == "");
  }
}

TEST_CASE("different counts are reported without zeroth.check, whichever rank has more") {
  auto const way = one_way();
  std::int64_t const of_rank_0 = GENERATE(20, 1000);  // data that fits into the queue, and data that does not
  auto const send = [&](Rank& rank) -> std::string {
    bool const sends = rank.communicator.rank() == 0;
    std::int64_t const count = sends ? of_rank_0 : of_rank_0 / 2;
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    auto const memory = rank.device.allocate(device::Category::gradients, 4 * of_rank_0);
    auto const known = rank.communicator.register_memory(*memory);
    try {
      rank.communicator.broadcast(*stream, {"test", "counts"}, memory->data(), memory->data(), count, Dtype::fp32, 0);
      stream->synchronize();
    } catch (PeerError const& error) {
      return error.what();
    }
    return "nothing was said";
  };
  auto const said = run_tcp_ranks(2, within_machine(way), send, {}, platform(way));
  CAPTURE(name_of(way), of_rank_0);
  // The data in the queue has left the sender before the receiver looks at it.
  CHECK_THAT(said[1], Catch::Contains(std::to_string(4 * of_rank_0)) &&
                          Catch::Contains(std::to_string(2 * of_rank_0)) && Catch::Contains("with the same counts"));
  if (of_rank_0 == 1000) {
    CHECK_THAT(said[0], Catch::Contains("with the same counts"));
  }
}

TEST_CASE("different collectives of equal size are reported without zeroth.check") {
  auto const way = one_way();
  std::int64_t const count = GENERATE(20, 1000);
  struct Row {
    char const* name;
    Collective of_rank_0, of_rank_1;
  };
  Collective const sum{Operation::all_reduce, nullptr, nullptr, count, Dtype::fp32, 0};
  Collective const gather{Operation::all_gather, nullptr, nullptr, count, Dtype::fp32, 0};
  auto const row = GENERATE_COPY(
      Row{"dtype", gather, {Operation::all_gather, nullptr, nullptr, count, Dtype::int32, 0}},
      Row{"operator", sum, {Operation::all_reduce, nullptr, nullptr, count, Dtype::fp32, 0, Reduce::maximum}},
      Row{"operation", {Operation::broadcast, nullptr, nullptr, count, Dtype::fp32, 0}, gather},
      Row{"message",
          {Operation::send, nullptr, nullptr, count, Dtype::fp32, 1},
          {Operation::receive, nullptr, nullptr, count, Dtype::int32, 0}});
  auto const differ = [&](Rank& rank) -> std::string {
    auto mine = rank.communicator.rank() == 0 ? row.of_rank_0 : row.of_rank_1;
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    auto const memory = rank.device.allocate(device::Category::gradients, 16 * count);
    auto const known = rank.communicator.register_memory(*memory);
    mine.input = memory->data();
    mine.output = memory->data() + 8 * count;
    try {
      rank.communicator.submit(*stream, {"test", "kinds"}, {&mine, 1});
      stream->synchronize();
    } catch (PeerError const& error) {
      return error.what();
    }
    return "nothing was said";
  };
  auto const said = run_tcp_ranks(2, within_machine(way), differ, {}, platform(way));
  CAPTURE(name_of(way), count, row.name);
  CHECK_THAT(said[1], Catch::Contains("is in another collective: operation, dtype, operator, count or root differ"));
}

TEST_CASE("ranks on rank 0's machine use its reachable address, although its name is a loopback address there") {
  constexpr int world = 3;
  std::mutex mutex;
  std::set<std::string> hosts;
  std::vector<std::shared_ptr<TcpSession>> sessions =
      tcp_sessions(world, WithinMachine::network, [&](TcpOptions& each) {
        each.rendezvous.at.host = "127.1";  // a name that resolves to loopback, and is not spelled so
        each.detour = [&](int /*rank*/, Endpoint const& at) {
          std::scoped_lock const lock{mutex};
          hosts.insert(at.host);
          return at;
        };
      });
  CHECK(hosts == std::set<std::string>{"127.0.0.1"});
  std::vector<std::jthread> threads;
  for (auto& session : sessions) {
    threads.emplace_back([mine = std::move(session)] { mine->await_all(); });
  }
}

/// Two ranks' queues, in one process.
struct TwoQueues {
  SharedQueues first{2, 0};
  SharedQueues second{first.file(), 2, 1};
  std::uint32_t number = 0;

  /// The second rank's address of the data that the first one shows; null if it must come by the network.
  std::byte const* find(device::Memory const& memory) {
    auto const shown = first.show(1, Tag::blocks, memory.data(), 4096, 0);
    auto const at = second.borrow(0, Tag::blocks, number, 0, 4096, true, 0);
    REQUIRE(at);
    REQUIRE(shown == (*at == nullptr ? SharedQueues::Shown::by_network : SharedQueues::Shown::here));
    REQUIRE(second.release(0, Tag::blocks, number));
    ++number;
    return *at;
  }
};

TEST_CASE("registered memory is read in place, until its owner withdraws it") {
  TwoQueues queues;
  device::Ledger ledger;
  device::PageMemory const memory{ledger, device::Category::slots, 8192, device::Pages::shared};
  memory.data()[5] = std::byte{7};
  auto const address = reinterpret_cast<std::uint64_t>(memory.data());
  auto const file = describe_file(memory.file());

  CHECK(queues.find(memory) == nullptr);  // not registered yet

  auto const number = queues.first.windows().begin(address, 8192);
  queues.second.windows().open(number, 0, file, address, 8192);
  auto const* const here = queues.find(memory);
  REQUIRE((here != nullptr && here != memory.data()));
  CHECK(here[5] == std::byte{7});

  // The other side is the first to end the registration.
  queues.second.windows().end(number);
  auto const* const again = queues.find(memory);
  REQUIRE(again != nullptr);
  CHECK(again[5] == std::byte{7});

  // Its owner has ended it, and may have other memory there now.
  queues.first.windows().end(number);
  CHECK(queues.find(memory) == nullptr);
}

TEST_CASE("another file in place of a rank's shared memory is neither read nor written") {
  device::Ledger ledger;
  device::PageMemory const memory{ledger, device::Category::slots, 8192, device::Pages::shared};
  device::PageMemory const foreign{ledger, device::Category::slots, 8192, device::Pages::shared};
  auto file = describe_file(memory.file());
  CHECK_THROWS_AS(open_shared(file, 8193, O_RDONLY), SystemError);  // reading would raise SIGBUS
  file.descriptor = foreign.file();
  PeerWindows windows;
  CHECK_THROWS_WITH(windows.open(1, 0, file, 4096, 8192),
                    Catch::Contains("is not the memory that another rank shares"));
  CHECK_THROWS_WITH((SharedQueues{file, 2, 1}), Catch::Contains("is not the memory that another rank shares"));
  for (std::int64_t i = 0; i < foreign.bytes(); ++i) {
    REQUIRE(foreign.data()[i] == std::byte{});
  }
  file.descriptor = 9999;
  CHECK_THROWS_WITH(windows.open(1, 0, file, 4096, 8192), Catch::Contains("cannot be opened"));
}

TEST_CASE("withdrawing memory does not wait, and pieces borrowed from it do not count") {
  TwoQueues queues;
  device::Ledger ledger;
  device::PageMemory const memory{ledger, device::Category::slots, 4096, device::Pages::shared};
  auto const address = reinterpret_cast<std::uint64_t>(memory.data());
  auto const number = queues.first.windows().begin(address, 4096);
  queues.second.windows().open(number, 0, describe_file(memory.file()), address, 4096);
  REQUIRE(queues.first.show(1, Tag::blocks, memory.data(), 4096, 0) == SharedQueues::Shown::here);
  REQUIRE(queues.second.borrow(0, Tag::blocks, 0, 0, 4096, true, 0));
  queues.first.withdraw();
  CHECK_FALSE(queues.second.release(0, Tag::blocks, 0));
}

}  // namespace
}  // namespace zeroth::comm::conformance
