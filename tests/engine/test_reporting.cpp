// SPDX-License-Identifier: Apache-2.0
/// The output that a stage file requests for steps: only on rank 0, and with correct numbers.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/reports.hpp"
#include "support/folder.hpp"
#include "support/log.hpp"

namespace zeroth::testing {
namespace {

using Events = std::vector<MonitorEvent>;

std::string text_of(std::filesystem::path const& file) {
  std::ifstream stream{file};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

struct Kept final : Monitor {
  std::shared_ptr<Events> all;
  explicit Kept(std::shared_ptr<Events> to) : all{std::move(to)} {}
  void write(std::span<MonitorEvent const> events) override { all->insert(all->end(), events.begin(), events.end()); }
};

struct Broken final : Monitor {
  void write(std::span<MonitorEvent const> /*events*/) override { throw std::runtime_error{"the sink is full"}; }
};

struct Line {
  std::string what, unit, collective;
  double count = 0, megabytes = 0;
};

/// Lines of the table, without the times.
std::vector<Line> lines_of(std::string const& table) {
  std::vector<Line> lines;
  std::istringstream text{table};
  std::string row;
  std::getline(text, row);  // the header
  while (std::getline(text, row)) {
    std::istringstream words{row};
    Line line;
    words >> line.what;
    if (line.what != "decide") {  // it belongs to no unit
      words >> line.unit;
    }
    words >> line.collective >> line.count >> line.megabytes;
    lines.push_back(line);
  }
  return lines;
}

double bytes_of(std::vector<Line> const& lines, std::string const& what) {
  double bytes = 0;
  for (auto const& line : lines) {
    bytes += line.what == what ? line.count * line.megabytes * 1e6 : 0;
  }
  return bytes;
}

/// Trains `steps` steps on two ranks. Returns rank 0's reports, and calls `look` with its engine at the end.
template <class F>
std::vector<StepReport> two_ranks(Config const& config, int steps, F const& look) {
  return run(2, config,
             [&](Job& job, Engine<float>& engine, SmallModel const& small) {
               Seen seen{train(engine, small, steps), {}};
               if (job.rank() == 0) {
                 look(engine);
               }
               return seen;
             })
      .front()
      .reports;
}
void nothing(Engine<float>& /*engine*/) {}

}  // namespace

TEST_CASE("steps_per_print logs a line every that many steps, on rank 0") {
  Log const log;
  two_ranks(small_config(2, {.more = R"(, "steps_per_print": 2)"}), 5, nothing);
  CHECK(log.count("ms a step") == 2);
  CHECK(log.count("step 2: loss ") == 1);
  CHECK(log.count("step 4: loss ") == 1);
  CHECK(log.count("without effect") == 0);
}

TEST_CASE("keys without effect are logged once") {
  Log const log;
  auto const more = R"(, "prescale_gradients": true, "log_level": "info", "my_own_key": 1)";
  two_ranks(small_config(1, {.more = more}), 1, nothing);
  CHECK(log.count("2 keys without effect here: prescale_gradients, log_level") == 1);
  CHECK(log.count("my_own_key (line ") == 1);
}

TEST_CASE("the breakdown has the times of every stream, also around the program's own trace") {
  Log const log;
  auto const more = R"(, "steps_per_print": 4, "wall_clock_breakdown": true, "memory_breakdown": true,
                         "dump_state": true)";
  auto const file = SmallFile{.accumulation = 1, .zero = R"(, "overlap_comm": true)", .more = more};
  std::vector<std::size_t> traced(2);
  run(2, small_config(3, file), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
    train(engine, small, 1);
    Timeline timeline;
    engine.trace(&timeline);
    train(engine, small, 1);
    engine.trace(nullptr);
    traced[static_cast<std::size_t>(job.rank())] = timeline.spans().size();
    train(engine, small, 7);
    return Seen{};
  });
  CHECK(traced[0] > 0);
  CHECK(traced[1] > 0);
  CHECK(log.count("  compute  forward ") == 2);
  CHECK(log.count("  compute  backward ") == 2);
  CHECK(log.count("  compute  update ") == 2);
  CHECK(log.count("  gather   gather ") == 2);
  CHECK(log.count("  reduce   reduce ") == 2);
  CHECK(log.count("planned for each rank: parameters ") == 1);
  CHECK(log.count("held at most: parameters ") == 2);
  CHECK(log.count("(dump_state):\n") == 1);
  CHECK(log.count("\nzero_optimization.stage ") == 1);
  // Covers steps 5 to 8, each with one micro-step of three units.
  auto const all = log.all();
  auto const last = all.substr(all.rfind("  compute  forward "));
  std::istringstream row{last.substr(0, last.find('\n'))};
  std::string stream, what;
  double ms = -1, spans = 0;
  row >> stream >> what >> ms >> spans;
  CHECK(ms >= 0);
  CHECK(spans == Approx(3));
}

TEST_CASE("the slowest rank is named, by the time of its own work") {
  Log const log;
  auto const config = small_config(2, {.accumulation = 1, .more = R"(, "steps_per_print": 2,
                                                                      "wall_clock_breakdown": true)"});
  run(3, config, [](Job& job, Engine<float>& engine, SmallModel const& small) {
    for (int step = 0; step < 4; ++step) {
      for (auto micro : engine.micro_steps()) {
        if (job.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds{100});
        }
        micro_step(micro, small);
      }
      engine.step();
    }
    engine.finish();
    return Seen{};
  });
  INFO(log.all());
  CHECK(log.count("own work of a step over ranks, without waits for others: ") == 2);
  CHECK(log.count(" ms at most (rank 1, ") == 2);
}

TEST_CASE("spreads over ranks have the least, mean and greatest value, and their ranks") {
  std::vector<double> const values{3, 1, 5, 5, 1};
  auto const spread = spread_of(values);
  CHECK(spread.least == 1);
  CHECK(spread.least_rank == 1);
  CHECK(spread.mean == 3);
  CHECK(spread.most == 5);
  CHECK(spread.most_rank == 2);
  CHECK(describe(spread, "GB") ==
        "1.000 GB at least (rank 1), 3.000 GB on average, 5.000 GB at most (rank 2, 1.67 times the average)");
  CHECK_THROWS_AS(spread_of({}), ContractError);
  std::vector<int> slowest(3, -1);
  auto const outcome = run_job(3, [&](Job& job) {
    slowest[static_cast<std::size_t>(job.rank())] = spread_over_ranks(job, job.rank() == 1 ? 7.5 : 0.25).most_rank;
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK(slowest == std::vector<int>(3, 1));
}

TEST_CASE("a table of times has the spans of its steps, including the last") {
  Log const log;
  auto const more = R"(, "steps_per_print": 1, "wall_clock_breakdown": true)";
  two_ranks(small_config(3, {.zero = R"(, "overlap_comm": true)", .more = more}), 4, nothing);
  auto const all = log.all();
  int tables = 0;
  for (auto at = all.find("  compute  forward "); at != all.npos; at = all.find("  compute  forward ", at + 1)) {
    std::istringstream row{all.substr(at, all.find('\n', at) - at)};
    std::string stream, what;
    double ms = -1, spans = 0;
    row >> stream >> what >> ms >> spans;
    CHECK(spans == Approx(6));  // three units in each of two micro-steps
    ++tables;
  }
  CHECK(tables == 4);
}

TEST_CASE("comms_logger counts the bytes of the reports") {
  for (int const stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    Log const log;
    std::string table;
    auto const reports = two_ranks(small_config(stage, {.more = R"(, "comms_logger": {"enabled": true})"}), 3,
                                   [&](Engine<float>& engine) { table = engine.communication(); });
    INFO(table);
    auto const lines = lines_of(table);
    double gathered = 0, reduced = 0;
    for (auto const& report : reports) {
      gathered += static_cast<double>(report.gathered_bytes);
      reduced += static_cast<double>(report.reduced_bytes);
    }
    CHECK(bytes_of(lines, "gather") + bytes_of(lines, "publish") == Approx(gathered).epsilon(1e-4));
    CHECK(bytes_of(lines, "reduce") == Approx(reduced).epsilon(1e-4));
    auto const decide = std::ranges::find(lines, "decide", &Line::what);
    REQUIRE(decide != lines.end());
    CHECK(decide->count == 3);
    CHECK(decide->collective == "all_reduce");
    CHECK(log.count("collectives of this rank (comms_logger):\n") == 1);  // at the end
  }
  std::string none = "nobody looked";
  two_ranks(small_config(2), 1, [&](Engine<float>& engine) { none = engine.communication(); });
  CHECK(none.empty());
}

TEST_CASE("comms_logger counts what a worker pushes and pulls") {
  for (int const staleness : {0, 2}) {
    INFO(staleness);
    auto const config =
        small_config(0, {.zeroth = fmt::format(R"(, "parameter_server": {{"servers": 2, "staleness": {}}})", staleness),
                         .more = R"(, "comms_logger": {"enabled": true}, "gradient_clipping": 0)"});
    std::vector<StepReport> reports;
    std::string table;
    auto const outcome = run_job(4, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, config};
      if (engine.serves()) {
        return engine.serve();
      }
      auto const mine = train(engine, small, 3);
      if (job.rank() == 0) {
        reports = mine;
        table = engine.communication();
      }
    });
    REQUIRE(messages_of(outcome) == "");
    INFO(table);
    auto const lines = lines_of(table);
    double pushed = 0, pulled = 0;
    for (auto const& report : reports) {
      pushed += static_cast<double>(report.reduced_bytes);
      pulled += static_cast<double>(report.gathered_bytes);
    }
    CHECK(pushed > 0);
    CHECK(pulled > 0);
    CHECK(bytes_of(lines, "reduce") == Approx(pushed).epsilon(1e-4));
    CHECK(bytes_of(lines, "pull") == Approx(pulled).epsilon(1e-4));
    for (auto const& [what, collective] : {std::pair{"reduce", "send"}, std::pair{"pull", "receive"}}) {
      auto const row = std::ranges::find(lines, std::string{what}, &Line::what);
      REQUIRE(row != lines.end());
      CHECK(row->collective == collective);
      CHECK(row->count == 3);
    }
  }
}

TEST_CASE("flops_profiler counts by shapes, and logs once") {
  Folder const folder;
  auto const file = (folder / "profile.txt").string();
  auto const config = small_config(
      2, {.accumulation = 1,
          .more =
              fmt::format(R"(, "flops_profiler": {{"enabled": true, "profile_step": 3, "output_file": "{}"}})", file)});
  Log const log;
  auto const outcome = run_job(2, [&](Job& job) {
    Model model;
    auto const unit = model.unit("wide", {.rows_per_sample = 4});
    auto const matrix = model.param(unit, "wide.weight", {8, 16}, Normal{1});
    auto const bias = model.param(unit, "wide.bias", {16}, Constant{0});
    auto const frozen = model.unit("frozen", {.rows_per_sample = 1000});
    auto const held = model.param(frozen, "frozen.weight", {10, 10}, Normal{1}, {.trainable = false});
    auto const table = model.unit("table", {.rows_per_sample = 0});
    auto const looked_up = model.param(table, "table.weight", {1000, 2}, Normal{1});
    static_cast<void>(held);
    Engine<float> engine{job, model, config};
    for (int step = 0; step < 5; ++step) {
      for (auto micro : engine.micro_steps()) {
        for (auto const each : {unit, frozen, table}) {
          auto const p = micro.forward(each);
        }
        static_cast<void>(micro.report_loss(1));
        {
          auto const p = micro.backward(table);
          std::ranges::fill(std::span{p.grad(looked_up).data(), 2000}, 0.0F);
        }
        { auto const p = micro.backward(frozen); }
        {
          auto const p = micro.backward(unit);
          std::ranges::fill(std::span{p.grad(matrix).data(), 128}, 0.0F);
          std::ranges::fill(std::span{p.grad(bias).data(), 16}, 0.0F);
        }
      }
      engine.step();
    }
    engine.finish();
  });
  REQUIRE(messages_of(outcome) == "");
  auto const text = text_of(file);
  INFO(text);
  CHECK(text.starts_with("flops profiler, step 3: 2244 parameters, 2 samples on each rank\n"));
  // 2 x 128 elements x 8 rows; 2 x 100 x 2000.
  CHECK(text.find("2.048 kFLOP") != std::string::npos);
  CHECK(text.find("4.096 kFLOP") != std::string::npos);
  CHECK(text.find("402 kFLOP") != std::string::npos);    // forward of both
  CHECK(text.find("404.1 kFLOP") != std::string::npos);  // backward: 4.096, and 400 with a single gradient
  CHECK(text.find("\n  table ") != std::string::npos);
  CHECK(log.count("flops profiler") == 0);
}

TEST_CASE("a profile is logged if it has no file, or if its file cannot be written") {
  for (auto const* const file : {"", R"(, "output_file": "/nonexistent/profile.txt")"}) {
    Log const log;
    auto const more = fmt::format(R"(, "flops_profiler": {{"enabled": true, "detailed": false{}}})", file);
    two_ranks(small_config(0, {.more = more}), 4, nothing);
    CHECK(log.count("flops profiler, step 2: ") == 1);
    CHECK(log.count("  forward ") == 1);
    CHECK(log.count("/nonexistent/profile.txt") == (*file == '\0' ? 0 : 1));
  }
}

TEST_CASE("the last step can be profiled, and a step that is never reached is logged") {
  for (int const step : {4, 5}) {
    Log const log;
    auto const more = fmt::format(R"(, "flops_profiler": {{"enabled": true, "profile_step": {}}})", step);
    two_ranks(small_config(2, {.more = more}), 4, nothing);
    CHECK(log.count("flops profiler, step 4: ") == (step == 4 ? 1 : 0));
    CHECK(log.count(" ms, -") == 0);  // a time without a measurement
    CHECK(log.count("step 5 was not reached: the last was 4") == (step == 4 ? 0 : 1));
  }
}

TEST_CASE("a monitor whose folder cannot be created is logged once, by its key") {
  Log const log;
  auto const more = R"(, "csv_monitor": {"enabled": true, "output_path": "/dev/null/here", "job_name": "csv"})";
  CHECK(two_ranks(small_config(1, {.more = more}), 3, nothing).size() == 3);
  CHECK(log.count("csv_monitor.output_path: the monitor's folder /dev/null/here/csv: Not a directory: monitor "
                  "disabled; training continues") == 1);
}

TEST_CASE("wandb writes TensorBoard's event files, and logs how to upload them") {
  Folder const folder;
  Log const log;
  auto const more = fmt::format(R"(, "tensorboard": {{"output_path": "{}", "job_name": "events"}},
                                     "wandb": {{"enabled": true, "project": "mine", "team": "us"}})",
                                folder.path().string());
  CHECK(two_ranks(small_config(1, {.more = more}), 1, nothing).size() == 1);
  CHECK(log.count(
            "wandb.enabled: the run is uploaded by: wandb sync --sync-tensorboard --project 'mine' --entity 'us' '" +
            (folder / "events").string() + "'") == 1);
  CHECK(std::distance(std::filesystem::directory_iterator{folder / "events"}, {}) == 1);
}

TEST_CASE("monitors get every step, by DeepSpeed's names over samples, and a failing one is disabled alone") {
  Folder const folder;
  Log const log;
  auto const more = fmt::format(R"(, "csv_monitor": {{"enabled": true, "output_path": "{0}", "job_name": "csv"}},
                                     "tensorboard": {{"enabled": true, "output_path": "{0}", "job_name": "events"}})",
                                folder.path().string());
  auto const kept = std::make_shared<Events>();
  auto const seen = run(2, small_config(1, {.more = more}), [&](Job&, Engine<float>& engine, SmallModel const& small) {
    engine.add_monitor(std::make_unique<Broken>());
    auto of_rank = std::make_unique<Kept>(engine.place() == 0 ? kept : std::make_shared<Events>());
    engine.add_monitor(std::move(of_rank));
    return Seen{train(engine, small, 3), {}};
  });
  auto const& reports = seen.front().reports;
  REQUIRE(reports.size() == 3);
  REQUIRE(kept->size() == 12);
  auto const& last = (*kept)[8];
  CHECK(last.name == "Train/Samples/train_loss");
  CHECK(last.value == static_cast<double>(reports[2].loss));
  CHECK(last.samples == 24);  // 2 for each of 2 ranks in each of 2 micro-steps
  CHECK(log.count("the sink is full: monitor disabled; training continues") == 1);
  auto const rates = text_of(folder / "csv/Train_Samples_lr.csv");
  CHECK(rates.starts_with("step,lr\n8,"));
  CHECK(std::ranges::count(rates, '\n') == 4);
  CHECK(std::distance(std::filesystem::directory_iterator{folder / "events"}, {}) == 1);
}

}  // namespace zeroth::testing
