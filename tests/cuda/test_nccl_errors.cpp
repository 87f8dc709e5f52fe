// SPDX-License-Identifier: Apache-2.0
/// Errors of NCCL, and the ranks' messages.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/conformance_parts.hpp"
#include "cuda/gate.hpp"
#include "cuda/nccl_ranks.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace zeroth::comm::conformance {
namespace {

namespace fake_nccl = testing::fake_nccl;
using Catch::Contains;
using std::chrono::milliseconds;
using testing::begin_nccl;
using testing::left_over;
using testing::run_nccl_ranks;

/// Options for collectives that are meant to time out. Others keep the default timeout.
constexpr CommOptions soon{.timeout = milliseconds{800}, .check = false};
/// The same for ranks that must meet before.
constexpr CommOptions in_a_while{.timeout = milliseconds{2500}, .check = false};
Label const label{"backward", "block 7"};

/// Sums over all ranks of a communicator, and returns the stream's error.
std::string sum(Rank& rank, Communicator& communicator) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  float data = 1;
  communicator.all_reduce(*stream, label, &data, &data, 1, Dtype::fp32);
  return error_of(*stream);
}

/// Like sum(), on communicator 'test', which is made for it.
std::string sum_once(Rank& rank) {
  Part part{rank.communicator, 0, rank.communicator.rank(), "test"};
  return sum(rank, part.communicator());
}

/// A sum that takes too long. It begins on no rank before all have submitted it, so that no rank is late with
/// submitting.
std::string sum_too_long(Rank& rank, Communicator& communicator, std::latch& submitted, std::int64_t count = 1) {
  auto const stream = rank.device.make_stream("test", device::Overlap::on);
  std::vector<float> data(static_cast<std::size_t>(count));
  communicator.set_options(soon);
  rank.post(*stream, [&submitted] { submitted.wait(); });
  communicator.all_reduce(*stream, label, data.data(), data.data(), count, Dtype::fp32);
  submitted.count_down();
  return error_of(*stream);
}

/// "rank 1" of "... rank 1 waited 3.00 s in ...", or nothing.
std::string who_waited(std::string const& problem) {
  auto const end = problem.find(" waited ");
  auto const begin = problem.rfind("rank ", end);
  return end == std::string::npos || begin == std::string::npos ? "" : problem.substr(begin, end - begin);
}

}  // namespace

TEST_CASE("a collective that never ends is found, named and aborted on every rank") {
  begin_nccl();
  fake_nccl::stall_work("test");
  auto const began = std::chrono::steady_clock::now();
  std::latch submitted{3};
  auto const problems = run_nccl_ranks(3, [&submitted](Rank& rank, auto&) {
    Part part{rank.communicator, 0, rank.communicator.rank(), "test"};
    auto const device = device::make_cuda_device(0, device::CudaBuffers::registrable);
    auto const memory = device->allocate(device::Category::slots, 1 << 20);
    auto const registered = part.communicator().register_memory(*memory);
    return sum_too_long(rank, part.communicator(), submitted);
  });
  std::set<std::string> waiting;
  for (auto const& problem : problems) {
    waiting.insert(who_waited(problem));
    CHECK_THAT(problem, Contains("waited") && Contains("all_reduce (backward of unit 'block 7', 1 fp32)") &&
                            Contains("of communicator 'test'") && Contains("all have submitted it") &&
                            Contains("NCCL_WIN_ENABLE=0"));
  }
  REQUIRE(waiting.size() == 1);  // all errors name the same rank
  CHECK(std::set<std::string>{"rank 0", "rank 1", "rank 2"}.contains(*waiting.begin()));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::minutes{1});
  CHECK(fake_nccl::calls("ncclCommAbort") == 3 * 2);  // communicators 'world' and 'test', on every rank
  CHECK(left_over() == "");
}

TEST_CASE("a missing rank is named with its last collective, also without zeroth.check") {
  begin_nccl();
  std::latch told{2};
  auto const problems = run_nccl_ranks(3, [&told](Rank& rank, auto&) {
    Part part{rank.communicator, 0, rank.communicator.rank(), "test"};
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    part.communicator().all_reduce(*stream, {"forward", "block 1"}, &data, &data, 1, Dtype::fp32);
    stream->synchronize();
    if (rank.communicator.rank() == 1) {  // busy elsewhere
      told.wait();
      return error_of(*stream);
    }
    part.communicator().set_options(soon);
    part.communicator().all_reduce(*stream, label, &data, &data, 1, Dtype::fp32);
    auto const error = error_of(*stream);
    told.count_down();
    return error;
  });
  for (int const rank : {0, 2}) {
    CHECK_THAT(problems[static_cast<std::size_t>(rank)],
               Contains("missing: rank 1, which last started all_reduce (forward of unit 'block 1', 1 fp32)") &&
                   Contains("transaction 2 of communicator 'test'"));
  }
  CHECK(left_over() == "");
}

TEST_CASE("a rank that misses its first collective is named with that collective") {
  begin_nccl();
  auto const problems = run_nccl_ranks(
      3,
      [](Rank& rank, auto&) {
        auto const stream = rank.device.make_stream("test", device::Overlap::on);
        float data = 1;
        if (rank.communicator.rank() == 1) {  // busy elsewhere, while NCCL connects the others
          std::this_thread::sleep_for(3 * soon.timeout);
        }
        rank.communicator.all_reduce(*stream, label, &data, &data, 1, Dtype::fp32);
        return error_of(*stream);
      },
      1, soon);
  for (auto const& problem : problems) {
    CHECK_THAT(problem, Contains("missing: rank 1, which started nothing yet") && Contains("waited") &&
                            Contains("in all_reduce (backward of unit 'block 7', 1 fp32), transaction 1 of "
                                     "communicator 'world'") &&
                            Contains("ncclGroupEnd of communicator 'world' on cuda:0 did not end within"));
  }
  CHECK(left_over() == "");
}

TEST_CASE("a message without its other side is detected before it is started") {
  begin_nccl();
  auto const problems = run_nccl_ranks(
      2,
      [](Rank& rank, auto&) {
        auto const stream = rank.device.make_stream("test", device::Overlap::on);
        float data = 1;
        Collective const message{
            .operation = Operation::send, .input = &data, .count = 1, .dtype = Dtype::fp32, .peer = 1};
        if (rank.communicator.rank() == 0) {
          rank.communicator.submit(*stream, label, std::array{message});
        } else {
          std::this_thread::sleep_for(3 * soon.timeout);
        }
        return error_of(*stream);
      },
      1, soon);
  CHECK_THAT(problems[0], Contains("rank 0 waited") && Contains("in send") && Contains("missing: rank 1"));
  CHECK(left_over() == "");
}

TEST_CASE("without zeroth.check, different counts end as a collective that never ends") {
  begin_nccl();
  std::latch submitted{2};
  auto const problems = run_nccl_ranks(2, [&submitted](Rank& rank, auto&) {
    return sum_too_long(rank, rank.communicator, submitted, 1 + rank.communicator.rank());
  });
  for (auto const& problem : problems) {
    CHECK_THAT(problem, Contains("waited") && Contains("block 7") && Contains("all have submitted it") &&
                            !Contains("NCCL_WIN_ENABLE"));
  }
  CHECK(left_over() == "");
}

TEST_CASE("an error inside NCCL ends every rank, and names the place") {
  begin_nccl();
  fake_nccl::break_work("test", 1, ncclRemoteError);
  auto const problems = run_nccl_ranks(3, [](Rank& rank, auto&) { return sum_once(rank); });
  for (auto const& problem : problems) {
    CHECK_THAT(problem, Contains("rank 1: NCCL's work of communicator 'test' on cuda:0: remote process exited") &&
                            Contains("said by the NCCL of the tests") && Contains("block 7"));
  }
  CHECK(left_over() == "");
}

TEST_CASE("an NCCL call that fails ends every rank, and is named") {
  begin_nccl();
  fake_nccl::refuse("ncclAllReduce", ncclInvalidArgument, 1);
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) { return sum_once(rank); });
  int told = 0;
  for (auto const& problem : problems) {
    told += problem.find("of communicator 'test' on cuda:0: invalid argument") != std::string::npos ? 1 : 0;
  }
  CHECK(told == 2);
  CHECK(left_over() == "");
}

TEST_CASE("creation of a communicator that never finishes fails at the deadline") {
  for (std::string const name : {"world", "test"}) {
    begin_nccl();
    fake_nccl::stall_making(name);
    auto const problems = run_nccl_ranks(
        2,
        [](Rank& rank, auto&) {
          rank.communicator.set_options(in_a_while);
          return sum_once(rank);
        },
        1, name == "world" ? in_a_while : CommOptions{});
    for (auto const& problem : problems) {
      CAPTURE(name);
      CHECK_THAT(problem, Contains("of communicator '" + name + "'"));
      CHECK_THAT(problem, Contains("PeerError"));
    }
    for (auto const& problem : problems) {  // including ranks that were notified
      CHECK_THAT(problem, Contains("did not end within"));
    }
    CHECK(left_over() == "");
  }
}

TEST_CASE("a failed NCCL initialisation is a SystemError on every rank") {
  begin_nccl();
  fake_nccl::refuse("ncclCommInitRankConfig", ncclUnhandledCudaError);
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) { return sum_once(rank); });
  auto const all = problems[0] + problems[1];
  CHECK_THAT(all, Contains("SystemError") &&
                      Contains("ncclCommInitRankConfig of communicator 'world' on cuda:0: unhandled cuda error"));
  CHECK_THAT(all, Contains("PeerError"));
  CHECK(left_over() == "");
}

TEST_CASE("a failed request for an NCCL id is a SystemError") {
  begin_nccl();
  fake_nccl::refuse("ncclGetUniqueId", ncclSystemError);
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) { return sum_once(rank); });
  CHECK_THAT(problems[0], Contains("SystemError") && Contains("ncclGetUniqueId: unhandled system error"));
  CHECK_THAT(problems[1], Contains("PeerError") && Contains("ncclGetUniqueId"));
  CHECK(left_over() == "");
}

TEST_CASE("a libnccl that is too old is rejected on every rank with both versions") {
  begin_nccl();
  fake_nccl::set_version(22707);
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) { return sum_once(rank); });
  for (auto const& problem : problems) {
    CHECK_THAT(problem, Contains("libnccl is version 2.27.7, but 2.28.0 is the oldest supported"));
  }
  CHECK(fake_nccl::calls("ncclCommInitRankConfig") == 0);
  begin_nccl();
  fake_nccl::set_version(22800);
  CHECK(run_nccl_ranks(2, [](Rank& rank, auto&) { return sum_once(rank); }) == std::vector<std::string>(2));
  CHECK(left_over() == "");
}

TEST_CASE("a communicator that cannot be finished is aborted") {
  begin_nccl();
  fake_nccl::stall_finalize();
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) {
    Part part{rank.communicator, 0, rank.communicator.rank(), "test"};
    auto problem = sum(rank, part.communicator());
    part.communicator().set_options(soon);
    rank.communicator.set_options(soon);
    return problem;
  });
  CHECK(problems == std::vector<std::string>(2));
  CHECK(fake_nccl::calls("ncclCommAbort") == 4);
  CHECK(fake_nccl::calls("ncclCommDestroy") == 0);
  CHECK(left_over() == "");
}

TEST_CASE("an NCCL abort that does not return does not keep ranks from ending") {
  begin_nccl();
  fake_nccl::stall_work("world");
  fake_nccl::stall_abort();
  std::barrier<> ended{2};
  auto const problems = run_nccl_ranks(2, [&ended](Rank& rank, auto& communicator) {
    auto const device = device::make_cuda_device(0, device::CudaBuffers::registrable);
    auto const memory = device->allocate(device::Category::slots, 1 << 20);
    auto window = rank.communicator.register_memory(*memory);
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    rank.communicator.set_options(soon);
    rank.communicator.all_reduce(*stream, label, &data, &data, 1, Dtype::fp32);
    while (fake_nccl::calls("ncclCommAbort") < 2) {
      std::this_thread::sleep_for(milliseconds{1});
    }
    window.reset();
    communicator.reset();
    ended.arrive_and_wait();
    fake_nccl::stall_abort(false);  // waiting for a GPU includes its work
    return error_of(*stream);
  });
  for (auto const& problem : problems) {
    CHECK_THAT(problem, Contains("waited") && Contains("of communicator 'world'"));
  }
  while (left_over() != "") {  // until the abandoned threads have returned
    std::this_thread::sleep_for(milliseconds{1});
  }
  CHECK(fake_nccl::calls("ncclCommAbort") == 2);
}

TEST_CASE("destruction waits for slow ranks until the job fails") {
  begin_nccl();
  fake_nccl::stall_destroy();
  std::atomic<int> gone{0};
  auto const problems = run_nccl_ranks(
      2,
      [&gone](Rank& rank, auto& communicator) {
        float data = 1;
        auto const stream = rank.device.make_stream("test", device::Overlap::on);
        communicator->all_reduce(*stream, label, &data, &data, 1, Dtype::fp32);
        stream->synchronize();
        auto const part = communicator->split(0, rank.communicator.rank(), "part");
        std::jthread const other{[&] {
          while (fake_nccl::calls("ncclCommDestroy") < 2) {
            std::this_thread::sleep_for(milliseconds{1});
          }
          std::this_thread::sleep_for(std::chrono::seconds{4});  // longer than NCCL gets once the job has failed
          if (gone == 0) {
            part->abort("the disk is full");
          }
        }};
        communicator.reset();
        ++gone;
        return std::string{};
      },
      1, soon);
  CHECK(problems == std::vector<std::string>(2));
  fake_nccl::stall_destroy(false);
  while (left_over() != "") {  // until the abandoned threads have returned
    std::this_thread::sleep_for(milliseconds{1});
  }
  CHECK(fake_nccl::calls("ncclCommDestroy") == 2);
  CHECK(fake_nccl::calls("ncclCommAbort") == 2);  // of 'part'
}

TEST_CASE("windows are registered and deregistered while NCCL is slow") {
  begin_nccl();
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) {
    auto const device = device::make_cuda_device(0, device::CudaBuffers::registrable);
    auto const memory = device->allocate(device::Category::slots, 1 << 20);
    auto const other = device->allocate(device::Category::slots, 1 << 20);
    auto first = rank.communicator.register_memory(*memory);
    auto const second = rank.communicator.register_memory(*other);
    if (first == nullptr || second == nullptr) {
      return std::string{"no window"};
    }
    first.reset();
    return sum_once(rank);
  });
  CHECK(problems == std::vector<std::string>(2));
  CHECK(fake_nccl::calls("ncclCommWindowRegister") == 4);
  CHECK(fake_nccl::calls("ncclCommWindowDeregister") == 4);
  CHECK(left_over() == "");
}

TEST_CASE("the tests' NCCL rejects memory that is registered twice with a communicator") {
  begin_nccl();
  auto const problems = run_nccl_ranks(1, [](Rank& rank, auto&) {
    auto const device = device::make_cuda_device(0, device::CudaBuffers::registrable);
    auto const memory = device->allocate(device::Category::slots, 1 << 20);
    auto const first = rank.communicator.register_memory(*memory);
    return std::string{rank.communicator.register_memory(*memory) ? "a window" : "none"};
  });
  CHECK_THAT(problems[0], Contains("ncclCommWindowRegister") && Contains("invalid usage"));
  CHECK(left_over() == "");
}

TEST_CASE("the tests' NCCL rejects ncclMemFree while work still uses the memory") {
  begin_nccl({});
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  REQUIRE(ncclMemAlloc(&memory, 4096) == ncclSuccess);
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  std::latch ends{1};
  REQUIRE(testing::fake_cuda::enqueue(stream, [&] { ends.wait(); }) == cudaSuccess);
  CHECK(ncclMemFree(memory) == ncclInvalidUsage);
  ends.count_down();
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    std::this_thread::yield();
  }
  CHECK(ncclMemFree(memory) == ncclSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(left_over() == "");
}

TEST_CASE("memory that cannot be registered in time ends every rank") {
  begin_nccl();
  fake_nccl::stall_windows();
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) {
    auto const device = device::make_cuda_device(0, device::CudaBuffers::registrable);
    auto const memory = device->allocate(device::Category::slots, 1 << 20);
    rank.communicator.set_options(soon);
    return std::string{rank.communicator.register_memory(*memory) ? "a window" : "none"};
  });
  auto const all = problems[0] + problems[1];
  CHECK_THAT(all, Contains("ncclCommWindowRegister of communicator 'world' on cuda:0 did not end within"));
  for (auto const& problem : problems) {
    CHECK_THAT(problem, Contains("PeerError"));
  }
  CHECK(left_over() == "");
}

TEST_CASE("destroying a communicator with unfinished work fails the job") {
  begin_nccl();
  std::atomic<bool> failed{false};
  auto const problems = run_nccl_ranks(2, [&failed](Rank& rank, auto&) {
    auto const stream = rank.device.make_stream("test", device::Overlap::on);
    float data = 1;
    {
      Part part{rank.communicator, 0, rank.communicator.rank(), "test"};
      part.communicator().set_options({.timeout = std::chrono::seconds{3}, .check = false});
      rank.post(*stream, [&failed] {  // the collective does not begin, so that it cannot be late either
        while (!failed) {
          std::this_thread::sleep_for(milliseconds{1});
        }
      });
      part.communicator().all_reduce(*stream, label, &data, &data, 1, Dtype::fp32);
      if (rank.communicator.rank() == 1) {
        return error_of(*stream);
      }
    }
    failed = true;
    return error_of(*stream);
  });
  for (auto const& problem : problems) {
    CHECK_THAT(problem,
               Contains("rank 0 ended communicator 'test', and all_reduce (backward of unit 'block 7', 1 fp32)") &&
                   Contains("was still on its way 3.00 s later"));
  }
  CHECK(left_over() == "");
}

TEST_CASE("nccl rejects host streams") {
  begin_nccl();
  auto const problems = run_nccl_ranks(1, [](Rank& rank, auto&) {
    auto const cpu = device::make_cpu_device();
    auto const stream = cpu->make_stream("test", device::Overlap::on);
    return testing::thrown<ContractError>([&] { rank.communicator.submit(*stream, label, {}); });
  });
  CHECK_THAT(problems[0], Contains("communicator 'world' is NCCL's and needs a GPU stream"));
}

TEST_CASE("nccl rejects cudaStreamPerThread") {
  begin_nccl();
  auto const problems = run_nccl_ranks(1, [](Rank& rank, auto&) {
    device::CudaContext context{0};
    device::CudaSpans spans{context};
    device::CudaStream stream{"compute", device::CudaStream::Role::beside, context, spans, cudaStreamPerThread};
    return testing::thrown<ContractError>([&] { rank.communicator.submit(stream, label, {}); });
  });
  CHECK_THAT(
      problems[0],
      Contains(
          "communicator 'world' is NCCL's, which launches from its own threads, but was given cudaStreamPerThread"));
  CHECK(left_over() == "");
}

TEST_CASE("an exception of a rank ends the waits of the others") {
  begin_nccl();
  std::latch submitted{2};
  auto const outcome = testing::run_nccl_job(3, [&submitted](Job& job) {
    auto& communicator = job.communicator();
    auto const device = device::make_cuda_device(0);
    auto const stream = device->make_stream("test", device::Overlap::on);
    float data = 1;
    communicator.all_reduce(*stream, {"forward", "block 1"}, &data, &data, 1, Dtype::fp32);  // NCCL connects them
    stream->synchronize();
    if (job.rank() == 2) {
      submitted.wait();
      throw std::runtime_error{"the disk is full"};
    }
    communicator.all_reduce(*stream, label, &data, &data, 1, Dtype::fp32);
    submitted.count_down();
    stream->synchronize();
  });
  for (std::size_t const rank : {0U, 1U}) {
    CHECK_THAT(testing::message_of(outcome[rank]),
               Contains("rank 2 failed: the disk is full") && Contains("was in all_reduce") && Contains("block 7"));
  }
  CHECK(left_over() == "");
}

TEST_CASE("the watch checks only the first unfinished transaction of each stream") {
  begin_nccl();
  FlightRecorder recorder{0, 1};
  auto const device = device::make_cuda_device(0);
  std::array const job_ranks{0};
  NcclPending pending{recorder, 0, job_ranks};
  auto const held = device->make_stream("held", device::Overlap::on);
  auto const idle = device->make_stream("idle", device::Overlap::on);
  auto const launch = [&](device::Stream& stream) {
    auto* const raw = device::as_cuda(stream).get();
    for (int i = 0; i < 20; ++i) {
      pending.launched(pending.begin(pending.take(label, {}, milliseconds{5}), nullptr, raw), raw);
    }
  };
  auto const questions = [&] {
    auto const before = testing::fake_cuda::calls("cudaEventQuery");
    CHECK(!pending.look(Clock::now() + std::chrono::hours{1}));  // nothing is late before it has begun
    return testing::fake_cuda::calls("cudaEventQuery") - before;
  };
  testing::Gate gate{*device};
  gate.enqueue_on(*held);
  launch(*held);
  CHECK(questions() == 1);
  launch(*idle);
  idle->synchronize();
  CHECK(questions() == 1 + 40);  // another stream's work after it
  CHECK(questions() == 1);
  gate.open();
  held->synchronize();
  CHECK(questions() == 40);
  CHECK(pending.empty());
}

TEST_CASE("communicators are created with the configuration of their settings") {
  begin_nccl();
  auto const problems = run_nccl_ranks(2, [](Rank& rank, auto&) { return sum_once(rank); });
  CHECK(problems == std::vector<std::string>(2));
  CHECK(fake_nccl::policies() == std::multimap<std::string, int>{{"test", NCCL_CTA_POLICY_DEFAULT},
                                                                 {"test", NCCL_CTA_POLICY_DEFAULT},
                                                                 {"world", NCCL_CTA_POLICY_DEFAULT},
                                                                 {"world", NCCL_CTA_POLICY_DEFAULT}});
  CHECK(std::string{std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT")} == "1");
  CHECK(fake_nccl::calls("ncclCommDestroy") == 4);
  CHECK(fake_nccl::calls("ncclCommAbort") == 0);
}

TEST_CASE("two ranks gather by copy engines from NCCL 2.31.2 on, other numbers of ranks always") {
  CommOptions options;
  options.copy_engine = true;
  struct Row {
    int ranks, version, policy;
  };
  for (auto const& [ranks, version, policy] :
       {Row{2, 23101, NCCL_CTA_POLICY_DEFAULT}, Row{2, 23102, NCCL_CTA_POLICY_ZERO},
        Row{3, 23101, NCCL_CTA_POLICY_ZERO}}) {
    CAPTURE(ranks, version);
    begin_nccl();
    fake_nccl::set_version(version);
    auto const problems = run_nccl_ranks(ranks, [&options](Rank& rank, auto&) {
      rank.communicator.set_options(options);
      return sum_once(rank);
    });
    CHECK(problems == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    std::multimap<std::string, int> expected;
    for (int rank = 0; rank < ranks; ++rank) {
      expected.emplace("test", policy);
      expected.emplace("world", NCCL_CTA_POLICY_DEFAULT);
    }
    CHECK(fake_nccl::policies() == expected);
  }
}

}  // namespace zeroth::comm::conformance
