// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "comm/describe.hpp"
#include "comm/record.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {
namespace {

Record record_of(std::uint64_t sequence) {
  return make_record("gather", sequence, {"forward", "block 3"},
                     {Operation::all_gather, nullptr, nullptr, 12, Dtype::bf16, 0});
}

TEST_CASE("the recorder keeps the last records, oldest first") {
  FlightRecorder recorder{1, 4, 3};
  CHECK(recorder.snapshot().empty());
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
    auto const ticket = recorder.enqueue(record_of(sequence));
    recorder.started(ticket);
    if (sequence != 5) {
      recorder.finished(ticket);
    }
  }
  auto const records = recorder.snapshot();
  REQUIRE(records.size() == 3);
  CHECK(records[0].sequence == 3);
  CHECK(records[1].sequence == 4);
  CHECK(records[2].sequence == 5);
  CHECK(records[1].enqueued_ns > 0);
  CHECK(records[1].started_ns >= records[1].enqueued_ns);
  CHECK(records[1].finished_ns >= records[1].started_ns);
  CHECK(records[2].finished_ns == 0);
  CHECK(std::string{records[2].what} == "all_gather");
  CHECK(std::string{records[2].communicator} == "gather");
}

TEST_CASE("tickets of records that were overwritten change nothing") {
  FlightRecorder recorder{0, 1, 2};
  auto const old = recorder.enqueue(record_of(1));
  recorder.enqueue(record_of(2));
  recorder.enqueue(record_of(3));
  recorder.started(old);
  recorder.finished(old);
  for (auto const& record : recorder.snapshot()) {
    CHECK(record.started_ns == 0);
    CHECK(record.finished_ns == 0);
  }
}

TEST_CASE("a note has one time") {
  FlightRecorder recorder{0, 1};
  recorder.note("update", "step", "a unit whose name is much longer than the room that a record has for it");
  auto const records = recorder.snapshot();
  REQUIRE(records.size() == 1);
  CHECK(std::string{records[0].what} == "update");
  CHECK(std::string{records[0].unit} == "a unit whose name is much longer than the room ");
  CHECK(records[0].started_ns > 0);
  CHECK(records[0].finished_ns == records[0].started_ns);
}

TEST_CASE("the recorder as JSON") {
  FlightRecorder recorder{2, 4};
  recorder.started(recorder.enqueue(record_of(7)));
  recorder.note("release", "forward", "tail \xc3\xa4 and half a letter \xc3");
  auto const parsed = nlohmann::json::parse(recorder.to_json("rank 3 left \xff"));
  CHECK(parsed["rank"] == 2);
  CHECK(parsed["world"] == 4);
  CHECK(parsed["reason"] == "rank 3 left \xef\xbf\xbd");
  REQUIRE(parsed["records"].size() == 2);
  auto const& gather = parsed["records"][0];
  CHECK(gather["what"] == "all_gather");
  CHECK(gather["purpose"] == "forward");
  CHECK(gather["unit"] == "block 3");
  CHECK(gather["communicator"] == "gather");
  CHECK(gather["sequence"] == 7);
  CHECK(gather["count"] == 12);
  CHECK(gather["dtype"] == "bf16");
  CHECK(gather["started_ns"] >= gather["enqueued_ns"]);
  CHECK(gather["finished_ns"].is_null());
  CHECK_FALSE(parsed["records"][1].contains("communicator"));
  CHECK(parsed["records"][1]["unit"] == "tail \xc3\xa4 and half a letter \xef\xbf\xbd");
}

TEST_CASE("the recorder's file is whole or absent") {
  testing::Folder const folder;
  auto const path = folder.path() / "rank0.json";
  FlightRecorder recorder{0, 1};
  recorder.enqueue(record_of(1));
  recorder.write(path, "first");
  recorder.write(path, "second");
  std::ifstream file{path};
  CHECK(nlohmann::json::parse(file)["reason"] == "second");
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 1);  // no other file
}

TEST_CASE("a file that cannot be written is named, with the reason") {
  FlightRecorder recorder{2, 4};
  CHECK_THROWS_WITH(recorder.write("/no/such/folder/rank2.json", "reason"),
                    "the flight record of rank 2, /no/such/folder/rank2.json: cannot be written: "
                    "No such file or directory");
}

TEST_CASE("describe_last() says what a rank did last") {
  FlightRecorder recorder{0, 1};
  CHECK(describe_last(recorder) == "started nothing yet");
  auto const first = recorder.enqueue(record_of(3));
  auto const second = recorder.enqueue(record_of(4));
  CHECK(describe_last(recorder) == "started nothing yet");
  recorder.started(first);
  auto const text = describe_last(recorder);
  CHECK(text.find(
            "started all_gather (forward of unit 'block 3', 12 bf16), transaction 3 of communicator 'gather', ") == 0);
  CHECK(text.find("ago and has not finished it") != std::string::npos);
  recorder.finished(first);
  CHECK(describe_last(recorder).find("last started all_gather") == 0);
  CHECK(describe_last(recorder).find("ago and finished it") != std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds{1});
  recorder.started(second);
  CHECK(describe_last(recorder).find("transaction 4") != std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds{1});
  recorder.note("wait", "forward", "block 4");
  CHECK(describe_last(recorder).find("transaction 4") != std::string::npos);  // a finished operation is not reported
}

TEST_CASE("threads record at the same time") {
  FlightRecorder recorder{0, 1, 64};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (std::uint64_t i = 1; i <= 500; ++i) {
          auto const ticket = recorder.enqueue(record_of(i));
          recorder.started(ticket);
          recorder.finished(ticket);
          if (i % 100 == 0) {
            static_cast<void>(recorder.snapshot());
          }
        }
      });
    }
  }
  auto const records = recorder.snapshot();
  CHECK(records.size() == 64);
  CHECK(std::all_of(records.begin(), records.end(), [](auto const& each) { return each.finished_ns > 0; }));
}

TEST_CASE("collectives in words") {
  Collective const gather{Operation::all_gather, nullptr, nullptr, 12, Dtype::bf16, 0};
  CHECK(describe({"forward", "block 3"}, gather, {}) == "all_gather (forward of unit 'block 3', 12 bf16)");
  std::vector const of_job{4, 5, 7};
  CHECK(describe({"step", ""}, {Operation::broadcast, nullptr, nullptr, 1, Dtype::fp64, 2}, of_job) ==
        "broadcast (step, 1 fp64, root 7)");
  CHECK(describe({"step", ""}, {Operation::broadcast, nullptr, nullptr, 1, Dtype::fp64, 3}, of_job) ==
        "broadcast (step, 1 fp64)");  // not a rank of it
  CHECK(describe({"start", ""}, {}, of_job) == "barrier (start)");
  CHECK(describe({"start\n", "\x1b[2J"}, {}, of_job) == R"(barrier (start\x0a of unit '\x1b[2J'))");
  CHECK(describe_ranks({3}) == "rank 3");
  CHECK(describe_ranks({5, 4}) == "ranks 4 and 5");
  CHECK(describe_ranks({4, 5, 6, 7}) == "ranks 4 to 7");
  CHECK(describe_ranks({1, 9, 17}) == "ranks 1, 9 and 17");
  CHECK(describe_ranks({0, 8, 16, 24, 32}) == "ranks 0, 8, 16, ..., 32");
  CHECK(describe_rank("reduce", {0, 2, 1, 3}, 1, 4) == "rank 2");  // in its own order
  CHECK(describe_rank("gather-group", {4, 5, 6, 7}, 1, 8) == "rank 5 (of 'gather-group': ranks 4 to 7)");
  CHECK(describe({"", ""}, {Operation::send, nullptr, nullptr, 3, Dtype::byte, 1}, of_job) ==
        "send (3 byte, to rank 5)");
  CHECK(describe(std::chrono::milliseconds{20}) == "20 ms");
  CHECK(describe(std::chrono::milliseconds{61'250}) == "61.25 s");
}

}  // namespace
}  // namespace zeroth::comm
