// SPDX-License-Identifier: Apache-2.0
/// Calls that parameter servers and workers reject, and how their jobs end.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

Config served(int servers, char const* more = "") {
  return small_config(0, {.zeroth = fmt::format(R"(, "parameter_server": {{"servers": {}}}{})", servers, more)});
}

bool is_server(Job const& job, int servers) { return job.rank() >= job.world() - servers; }

/// Runs `call` on the workers, while servers serve. Returns the first error.
std::string thrown_on_workers(std::function<void(AnyEngine&, SmallModel const&)> const& call) {
  return messages_of(run_job(3, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, served(1)};
    if (engine.serves()) {
      return engine.serve();
    }
    call(engine, small);
  }));
}

void train_a_step(Engine<float>& engine, SmallModel const& small) {
  all_micro_steps(engine, small);
  static_cast<void>(engine.step());
}

}  // namespace

TEST_CASE("only the last ranks serve") {
  auto const outcome = run_job(4, [](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, served(2)};
    if (engine.serves() != is_server(job, 2)) {
      throw std::logic_error{"wrong"};
    }
    if (engine.serves()) {
      return engine.serve();
    }
    train_a_step(engine, small);
    static_cast<void>(engine.finish());
  });
  CHECK(messages_of(outcome) == "");
}

TEST_CASE("a job needs a worker beside its servers") {
  for (int const servers : {2, 3}) {
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<float> const engine{job, small.model, served(servers)};
    });
    CHECK_THAT(messages_of(outcome),
               Contains(fmt::format("zeroth.parameter_server.servers is {}, and there are 2 ranks, of which at least "
                                    "one has to be a worker; allowed: 0 to 1",
                                    servers)));
  }
}

TEST_CASE("an engine with servers is the same on a mesh") {
  std::vector<float> on_job(3), on_mesh(3);
  for (auto* const losses : {&on_job, &on_mesh}) {
    auto const outcome = run_job(3, [&](Job& job) {
      SmallModel const small;
      auto const config = served(1);
      Mesh mesh{job, config};
      auto const place = mesh.place();
      if (place.stage != 0 || place.data != job.rank() || mesh.data().world() != 3) {
        throw std::logic_error{"wrong place"};
      }
      auto const engine = losses == &on_job ? std::make_unique<Engine<float>>(job, small.model, config)
                                            : std::make_unique<Engine<float>>(mesh, small.model, config);
      if (engine->serves()) {
        return engine->serve();
      }
      for (int step = 0; step < 3; ++step) {
        train_a_step(*engine, small);
      }
      std::vector<float> values(static_cast<std::size_t>(small.weights[0].shape()[0]));
      engine->read(small.weights[0], values);
      (*losses)[static_cast<std::size_t>(job.rank())] = values.back();
      static_cast<void>(engine->finish());
    });
    CHECK(messages_of(outcome) == "");
  }
  CHECK(on_job[0] != 0);
  CHECK(on_job == on_mesh);
}

TEST_CASE("serve() is for servers") {
  CHECK_THAT(thrown_on_workers([](AnyEngine& engine, SmallModel const&) { engine.serve(); }),
             Contains("serve() on a rank that is no parameter server"));
}

TEST_CASE("servers do nothing else") {
  Folder const folder;
  std::vector<float> values(300);
  std::vector<std::function<void(Engine<float>&, SmallModel const&)>> const calls{
      [](auto& engine, auto const&) { static_cast<void>(engine.micro_steps()); },
      [](auto& engine, auto const&) { static_cast<void>(engine.schedule()); },
      [](auto& engine, auto const&) { static_cast<void>(engine.evaluation(1)); },
      [](auto& engine, auto const&) { static_cast<void>(engine.step()); },
      [](auto& engine, auto const&) { static_cast<void>(engine.finish()); },
      [&](auto& engine, auto const& small) { engine.read(small.weights[0], values); },
      [&](auto& engine, auto const&) { engine.save(folder.path()); },
      [&](auto& engine, auto const&) { static_cast<void>(engine.restore_latest(folder.path())); }};
  for (auto const& call : calls) {
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, served(1)};
      if (engine.serves()) {
        return call(engine, small);
      }
      train_a_step(engine, small);
      static_cast<void>(engine.finish());
    });
    CHECK_THAT(messages_of(outcome), Contains("on a parameter server (zeroth.parameter_server.servers): servers call "
                                              "serve(), and nothing else: if (engine.serves()) { engine.serve(); "
                                              "return; }"));
    CHECK(std::ranges::all_of(outcome, [](std::exception_ptr const& error) { return error != nullptr; }));
  }
}

TEST_CASE("a server that does not serve ends the job within the timeout, and is named") {
  auto const begin = std::chrono::steady_clock::now();
  auto const outcome = run_job(3, [&](Job& job) {
    SmallModel const small;
    auto const config = served(1).with(R"({"zeroth": {"timeout_ms": 500}})");
    Engine<float> engine{job, small.model, config};
    if (engine.serves()) {
      while (!job.communicator().failure() && std::chrono::steady_clock::now() < begin + std::chrono::seconds{30}) {
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
      }
      return;
    }
    train_a_step(engine, small);
    static_cast<void>(engine.finish());
  });
  CHECK(std::chrono::steady_clock::now() < begin + std::chrono::seconds{20});
  CHECK_THAT(messages_of(outcome), Contains("order") && Contains("rank 2"));
  CHECK(outcome[0] != nullptr);
  CHECK(outcome[1] != nullptr);
}

TEST_CASE("a worker or a server that fails ends the job of all, and is named") {
  for (int const victim : {0, 1, 2, 3}) {
    auto const outcome = run_job(4, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, served(2)};
      if (engine.serves()) {
        if (job.rank() == victim) {
          throw std::runtime_error{"the data are gone"};
        }
        return engine.serve();
      }
      train_a_step(engine, small);
      if (job.rank() == victim) {
        throw std::runtime_error{"the data are gone"};
      }
      train_a_step(engine, small);
      static_cast<void>(engine.finish());
    });
    INFO("rank " << victim << ": " << messages_of(outcome));
    for (std::size_t rank = 0; rank < outcome.size(); ++rank) {
      REQUIRE(outcome[rank] != nullptr);
      CHECK_THAT(message_of(outcome[rank]), Contains("the data are gone") || Contains(fmt::format("rank {}", victim)));
    }
  }
}

TEST_CASE("a long pause of workers is no failure of their servers") {
  auto const outcome = run_job(3, [&](Job& job) {
    SmallModel const small;
    auto const config = served(1).with(R"({"zeroth": {"timeout_ms": 300}})");
    Engine<float> engine{job, small.model, config};
    if (engine.serves()) {
      return engine.serve();
    }
    train_a_step(engine, small);
    std::this_thread::sleep_for(std::chrono::milliseconds{800});
    train_a_step(engine, small);
    static_cast<void>(engine.finish());
  });
  CHECK(messages_of(outcome) == "");
}

namespace {

struct Stale {
  int workers = 3, servers = 2, staleness = 2, steps = 40;
  std::uint64_t seed = 1;
  int slow = -1;  ///< A worker that takes longer for each step.
  std::chrono::microseconds step{500};
};

/// Trains with pauses at random. Returns each worker's reports.
std::vector<std::vector<StepReport>> train_stale(Stale const& options) {
  std::vector<std::vector<StepReport>> reports(static_cast<std::size_t>(options.workers));
  auto const config = served(options.servers)
                          .with(fmt::format(R"({{"gradient_clipping": 0, "zeroth": {{"check": true, "parameter_server":
                                                 {{"staleness": {}}}}}}})",
                                            options.staleness));
  auto const outcome = run_job(options.workers + options.servers, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, config};
    if (engine.serves()) {
      return engine.serve();
    }
    auto& mine = reports[static_cast<std::size_t>(job.rank())];
    for (int step = 0; step < options.steps; ++step) {
      auto const random = noise(static_cast<std::int64_t>(options.seed) * 1000 + job.rank(), step);
      auto const pause = std::chrono::duration<double, std::micro>{options.step} *
                         (job.rank() == options.slow ? 5.0
                          : options.slow < 0         ? 1.0 + static_cast<double>(random)
                                                     : 1.0);
      std::this_thread::sleep_for(pause);
      all_micro_steps(engine, small);
      if (auto const report = engine.step()) {
        mine.push_back(*report);
      }
    }
    mine.push_back(*engine.finish());
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& mine : reports) {
    REQUIRE(std::ssize(mine) == options.steps);
  }
  return reports;
}

/// How often each staleness was reported. Requires that none is above the bound.
std::vector<int> histogram(std::vector<StepReport> const& reports, int bound) {
  std::vector<int> counts(static_cast<std::size_t>(bound) + 1);
  for (auto const& report : reports) {
    REQUIRE(report.staleness >= 0);
    REQUIRE(report.staleness <= bound);
    ++counts[static_cast<std::size_t>(report.staleness)];
  }
  return counts;
}

}  // namespace

TEST_CASE("no worker is further ahead than the bound, however ranks are delayed") {
  auto const seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count() % 1'000'000);
  INFO("seed " << seed);
  for (int const staleness : {1, 2, 5}) {
    auto const reports = train_stale({.staleness = staleness, .seed = seed + static_cast<std::uint64_t>(staleness)});
    for (auto const& mine : reports) {
      histogram(mine, staleness);
      CHECK(std::ranges::all_of(mine, [](StepReport const& report) { return std::isfinite(report.loss); }));
    }
  }
}

TEST_CASE("a worker that takes five times as long holds the others at the bound") {
  auto const reports =
      train_stale({.workers = 2, .servers = 1, .steps = 40, .slow = 1, .step = std::chrono::milliseconds{2}});
  auto const fast = histogram(reports[0], 2);
  INFO(fmt::format("{} {} {}", fast[0], fast[1], fast[2]));
  CHECK(fast[2] > 20);                       // ahead by the bound in most steps
  CHECK(histogram(reports[1], 2)[0] == 40);  // no worker is slower than the slowest one
}

TEST_CASE("workers keep to the bound even if there is nothing to train") {
  auto const config = served(2).with(R"({"gradient_clipping": 0, "zeroth": {"parameter_server": {"staleness": 1}}})");
  std::vector<std::vector<StepReport>> reports(2);
  auto const outcome = run_job(4, [&](Job& job) {
    Model model{1};
    auto const unit = model.unit("frozen");
    static_cast<void>(model.param(unit, "frozen.w", {9}, Constant{1}, {.trainable = false}));
    Engine<float> engine{job, model, config};
    if (engine.serves()) {
      return engine.serve();
    }
    auto& mine = reports[static_cast<std::size_t>(job.rank())];
    for (int step = 0; step < 30; ++step) {
      std::this_thread::sleep_for(std::chrono::microseconds{job.rank() == 0 ? 100 : 1000});
      for (auto micro : engine.micro_steps()) {
        static_cast<void>(micro.forward(unit));
        static_cast<void>(micro.report_loss(1));
        static_cast<void>(micro.backward(unit));
      }
      if (auto const report = engine.step()) {
        mine.push_back(*report);
      }
    }
    mine.push_back(*engine.finish());
  });
  REQUIRE(messages_of(outcome) == "");
  CHECK(histogram(reports[0], 1)[1] > 10);
  CHECK(histogram(reports[1], 1)[0] > 10);
}

TEST_CASE("workers that may be stale stop after the same step, and save at one that all have reached") {
  Folder const folder;
  std::vector<std::int64_t> last(3);
  auto const config = served(2).with(R"({"gradient_clipping": 0, "zeroth": {"parameter_server": {"staleness": 3}}})");
  std::vector<std::vector<float>> read(3);
  auto const train = [&](bool resumes) {
    auto const outcome = run_job(5, [&](Job& job) {
      std::atomic<bool> asked = false;
      detail::JobState::of(job).stop_requested = [&] { return asked.load(); };
      SmallModel const small;
      Engine<float> engine{job, small.model, config};
      if (engine.serves()) {
        return engine.serve();
      }
      auto const rank = static_cast<std::size_t>(job.rank());
      std::vector<float> values(300);
      if (resumes) {
        auto const restored = engine.restore_latest(folder.path());
        if (restored->step != last[rank]) {
          throw std::logic_error{"another step"};
        }
        engine.read(small.weights[0], values);
        if (values != read[rank]) {
          throw std::logic_error{"other values"};
        }
        train_a_step(engine, small);
        static_cast<void>(engine.finish());
        return;
      }
      for (int step = 1; step < 1000; ++step) {
        asked = asked || (job.rank() == 1 && step == 7);
        std::this_thread::sleep_for(std::chrono::microseconds{300} * (job.rank() + 1));
        all_micro_steps(engine, small);
        auto const report = engine.step();
        if (report && report->stop) {
          last[rank] = step;
          break;
        }
      }
      engine.save(folder.path()).wait();
      engine.read(small.weights[0], values);
      read[rank] = values;
      static_cast<void>(engine.finish());
    });
    CHECK(messages_of(outcome) == "");
  };
  train(false);
  CHECK(last[0] >= 8);
  CHECK(last[0] <= 13);
  CHECK(last == std::vector<std::int64_t>(3, last[0]));
  CHECK(read[1] == read[0]);
  train(true);
}

TEST_CASE("a worker or a server that fails ends the job of stale workers, and is named") {
  for (int const victim : {0, 1, 2, 3}) {
    auto const config = served(2).with(R"({"gradient_clipping": 0, "zeroth": {"parameter_server": {"staleness": 3}}})");
    auto const outcome = run_job(4, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, config};
      if (engine.serves() && job.rank() != victim) {
        return engine.serve();
      }
      if (job.rank() == victim) {
        throw std::runtime_error{"the data are gone"};
      }
      for (int step = 0; step < 10; ++step) {
        train_a_step(engine, small);
      }
      static_cast<void>(engine.finish());
    });
    INFO("rank " << victim << ": " << messages_of(outcome));
    for (auto const& error : outcome) {
      REQUIRE(error != nullptr);
      CHECK_THAT(message_of(error), Contains("the data are gone") || Contains(fmt::format("rank {}", victim)));
    }
  }
}

TEST_CASE("what servers cannot be told is refused") {
  CHECK_THAT(thrown_on_workers([](AnyEngine& engine, SmallModel const&) {
               engine.load_weights("/nowhere", [](std::string const&) { return false; });
             }),
             Contains("load_weights() with `left_out` and parameter servers"));
  CHECK_THAT(thrown_on_workers([](AnyEngine& engine, SmallModel const&) {
               RestoreOptions options;
               options.saved_name = [](std::string const& name) { return std::optional{name}; };
               static_cast<void>(engine.restore("/nowhere", options));
             }),
             Contains("RestoreOptions::saved_name with parameter servers"));
}

TEST_CASE("what fails on servers is thrown on workers, and training goes on") {
  auto const outcome = run_job(4, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, served(2)};
    if (engine.serves()) {
      return engine.serve();
    }
    auto const fails = [&](auto const& call, char const* why) {
      try {
        call();
      } catch (SystemError const& error) {
        if (std::string{error.what()}.find(why) == std::string::npos) {
          throw;
        }
        return;
      }
      throw std::logic_error{fmt::format("nothing was thrown: {}", why)};
    };
    train_a_step(engine, small);
    fails([&] { engine.save_weights("/nowhere/file"); }, "/nowhere/file");
    fails([&] { engine.load_weights("/nowhere/file"); }, "/nowhere/file");
    fails([&] { engine.save("/dev/null/saved"); }, "/dev/null/saved");
    fails([&] { engine.claim("/dev/null/saved"); }, "/dev/null/saved");
    static_cast<void>(engine.finish());
    fails([&] { static_cast<void>(engine.restore("/nowhere/saved")); }, "/nowhere/saved");
    train_a_step(engine, small);
    static_cast<void>(engine.finish());
  });
  CHECK(messages_of(outcome) == "");
}

}  // namespace zeroth::testing
