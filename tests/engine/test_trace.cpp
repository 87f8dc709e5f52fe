// SPDX-License-Identifier: Apache-2.0
/// Timelines of real steps.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"

namespace zeroth {
namespace {

using testing::small_config;
using testing::SmallModel;

std::vector<std::vector<Span>> traced(int stage, bool overlap, int world) {
  std::vector<std::vector<Span>> spans(static_cast<std::size_t>(world));
  auto const outcome = testing::run_job(world, [&](Job& job) {
    SmallModel small;
    testing::SmallFile const file{.accumulation = 2,
                                  .zero = overlap ? R"(, "overlap_comm": true)" : R"(, "overlap_comm": false)"};
    Engine<float> engine{job, small.model, small_config(stage, file)};
    testing::train(engine, small, 2);
    Timeline timeline;
    engine.trace(&timeline);
    testing::train(engine, small, 1);
    engine.trace(nullptr);
    testing::train(engine, small, 1);
    spans[static_cast<std::size_t>(job.rank())] = timeline.spans();
  });
  REQUIRE(testing::messages_of(outcome).empty());
  return spans;
}

/// The time that rank 0's compute stream waits in its timeline if rank 1 arrives `late`.
std::chrono::duration<double, std::micro> waited_for_a_rank(int stage, std::chrono::milliseconds late) {
  std::atomic<bool> tracing{false};
  double waited_us = 0;
  auto const outcome = testing::run_job(2, [&](Job& job) {
    SmallModel small;
    Engine<float> engine{job, small.model, small_config(stage, {.zero = R"(, "overlap_comm": true)"})};
    testing::train(engine, small, 2);
    Timeline timeline;
    if (job.rank() == 0) {
      engine.trace(&timeline);
      tracing = true;
    } else {
      while (!tracing) {
        std::this_thread::yield();
      }
      std::this_thread::sleep_for(late);
    }
    testing::train(engine, small, 1);
    if (job.rank() == 0) {
      engine.trace(nullptr);
      for (auto const& span : timeline.spans()) {
        waited_us += span.stream == "compute" && span.what == "wait" ? span.end_us - span.begin_us : 0;
      }
    }
  });
  REQUIRE(testing::messages_of(outcome).empty());
  return std::chrono::duration<double, std::micro>{waited_us};
}

std::ptrdiff_t count(std::vector<Span> const& spans, char const* stream, char const* what) {
  return std::ranges::count_if(spans, [&](Span const& s) { return s.stream == stream && s.what == what; });
}

}  // namespace

TEST_CASE("A timeline contains the turns, collectives and updates of the traced steps") {
  for (bool const overlap : {false, true}) {
    for (int const stage : {0, 1, 2, 3}) {
      INFO("stage " << stage << ", overlap " << overlap);
      for (auto const& spans : traced(stage, overlap, 2)) {
        CHECK(count(spans, "compute", "forward") == 2 * 3);
        CHECK(count(spans, "compute", "backward") == 2 * 3);
        CHECK(count(spans, "compute", "update") == 3);
        CHECK(count(spans, "reduce", "reduce") > 0);
        CHECK(count(spans, "reduce", "decide") == 1);
        CHECK((count(spans, "gather", "gather") > 0) == (stage == 3));
        CHECK(count(spans, "gather", "publish") == (stage == 1 || stage == 2 ? 3 : 0));
        std::set<std::string> units;
        for (auto const& span : spans) {
          CHECK(span.end_us >= span.begin_us);
          units.insert(span.unit);
        }
        CHECK(units == std::set<std::string>{"", "block0", "block1", "block2"});
        for (auto const* const stream : {"compute", "gather", "reduce"}) {
          double end = 0;
          for (auto const& span : spans) {
            if (span.stream == stream) {
              CHECK(span.begin_us >= end);
              end = span.end_us;
            }
          }
        }
      }
    }
  }
}

TEST_CASE("The time that a rank waits for a late one is a span of its compute stream") {
  for (int const stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    // On a busy machine rank 0 may be late itself; the later rank 1 arrives, the less that matters.
    std::chrono::milliseconds late{100};
    while (waited_for_a_rank(stage, late) < late / 5 && late < std::chrono::seconds{10}) {
      late *= 2;
    }
    CHECK(late < std::chrono::seconds{10});
  }
}

TEST_CASE("A trace file has the format of Chrome and Perfetto") {
  Timeline first, second;
  first.add({"compute", "forward", "block0", 10, 30});
  first.add({"gather", "gather", "block1", 12.5, 20});
  second.add({"compute", "wait", "", 30, 40});
  testing::Folder const folder;
  auto const file = folder.path() / "trace.json";
  std::vector<std::string> const events{first.to_trace_events(0), second.to_trace_events(1)};
  write_trace(file, events);
  auto const trace = nlohmann::json::parse(std::ifstream{file});
  std::set<std::string> seen;
  for (auto const& event : trace["traceEvents"]) {
    if (event["ph"] == "X") {
      seen.insert(event["name"].get<std::string>() + " " + event["pid"].dump() + " " + event["ts"].dump() + " " +
                  event["dur"].dump());
    } else {
      CHECK(event["ph"].get<std::string>() == "M");
      seen.insert(event["args"]["name"].get<std::string>());
    }
  }
  CHECK(seen == std::set<std::string>{"forward block0 0 10.0 20.0", "gather block1 0 12.5 7.5", "wait 1 30.0 10.0",
                                      "rank 0", "rank 1", "compute", "gather"});
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 1);  // no incomplete file is left
}

TEST_CASE("The error about an unwritable trace says where and why") {
  CHECK_THROWS_WITH(write_trace("/nowhere/trace.json", {}),
                    Catch::Contains("/nowhere/trace.json") && Catch::Contains("No such file or directory"));
}

TEST_CASE("Tracing can only begin and end between passes") {
  auto const outcome = testing::run_job(1, [&](Job& job) {
    SmallModel small;
    Engine<float> engine{job, small.model, small_config(0)};
    Timeline timeline;
    for (auto micro : engine.micro_steps()) {
      engine.trace(&timeline);
      static_cast<void>(micro);
    }
  });
  CHECK_THAT(testing::messages_of(outcome), Catch::Contains("trace() while micro-step 1 of 2 is open"));
}

}  // namespace zeroth
