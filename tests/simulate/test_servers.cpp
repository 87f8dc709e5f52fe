// SPDX-License-Identifier: Apache-2.0
/// Compares simulated parameter servers with arithmetic, and with those of real jobs.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/small_model.hpp"
#include "shard/server_links.hpp"
#include "simulate/simple_machine.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/simulate/simulate.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::simulate {
namespace {

using testing::small_config;
using testing::SmallModel;

Machine linked(double link_bytes_per_s) { return simple_machine(1, link_bytes_per_s); }

constexpr double fast_link = 1e18, slow_link = 1e6;

std::vector<UnitWork> const& small_work() {
  static std::vector<UnitWork> const work{{1e6, 2e6}, {3e6, 6e6}, {2e6, 4e6}};  // milliseconds, in all 18
  return work;
}

Config served(int servers, int staleness, testing::SmallFile file = {}) {
  file.zeroth += fmt::format(R"(, "parameter_server": {{"servers": {}, "staleness": {}}})", servers, staleness);
  file.more += staleness > 0 ? R"(, "gradient_clipping": 0)" : "";
  return small_config(0, file);
}

struct RealServers {
  std::vector<StepReport> reports;
  MemoryBytes worker, server;
};

RealServers train_with(int workers, int servers, Config const& config) {
  RealServers real;
  auto const outcome = testing::run_job(workers + servers, [&](Job& job) {
    SmallModel const small;
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      Engine<T, G> engine{job, small.model, config};
      if (engine.serves()) {
        engine.serve();
        if (job.rank() == workers) {
          real.server = engine.peak();
        }
        return;
      }
      auto reports = testing::train(engine, small, 4);
      if (job.rank() == 0) {
        real.reports = reports;
        real.worker = engine.peak();
      }
    });
  });
  REQUIRE(testing::messages_of(outcome).empty());
  return real;
}

/// Bytes that the decision of a step sends, by a ring of all ranks.
std::int64_t decision_bytes(int ranks) {
  auto const numbers = static_cast<double>(optim::numbers_in_sums(0) * 8);
  return static_cast<std::int64_t>(2 * numbers * (ranks - 1) / ranks);
}

/// A model of equal units without padding for up to eight servers.
struct Even {
  static constexpr int units = 16;
  static constexpr std::int64_t count = 8 * 1024;  // of a unit
  Even() {
    for (int u = 0; u < units; ++u) {
      auto const name = fmt::format("unit{}", u);
      static_cast<void>(model.param(model.unit(name), name, {count}, Normal{0.5F}));
    }
  }
  Model model;
};

constexpr std::int64_t bytes_of_model = Even::units * Even::count * 4;

}  // namespace

TEST_CASE("Simulated workers and servers send the bytes of real ones, as planned, and hold their memory") {
  struct Case {
    int staleness, accumulation;
    char const* zero;
    char const* zeroth;
    char const* more;
  };
  for (auto const& [staleness, accumulation, zero, zeroth, more] :
       {Case{0, 2, "", "", ""},
        Case{0, 2, R"(, "reduce_bucket_size": 700, "overlap_comm": true)",
             R"(, "reduce_gradients": "every_micro_step")", ""},
        Case{0, 1, "", "", R"(, "bf16": {"enabled": true})"}, Case{2, 2, "", "", ""},
        Case{1, 2, "", "", R"(, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})"}}) {
    for (auto const& [workers, servers] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 2}, std::pair{2, 3}}) {
      INFO(fmt::format("{} workers, {} servers, staleness {}{}{}{}", workers, servers, staleness, zero, zeroth, more));
      testing::SmallFile const file{.accumulation = accumulation, .zero = zero, .zeroth = zeroth, .more = more};
      auto const config = served(servers, staleness, file);
      SmallModel const small;
      auto const real = train_with(workers, servers, config);
      auto const planned = plan(small.model, config, workers + servers);
      auto const simulated = run(small.model, config, workers + servers, small_work(), linked(fast_link));
      auto const& expected = real.reports.back();
      CHECK(simulated.report.reduced_bytes == expected.reduced_bytes);
      CHECK(simulated.report.gathered_bytes == expected.gathered_bytes);
      CHECK(simulated.memory == real.worker);
      CHECK(simulated.memory == planned.bytes);
      CHECK(simulated.server.memory == real.server);
      CHECK(simulated.server.memory == planned.servers.bytes);
      CHECK(simulated.report.reduced_bytes == planned.servers.pushed_bytes);
      // A server's notes to workers that may be stale, or its part of a decision.
      auto const beside = staleness > 0 ? workers * static_cast<std::int64_t>(sizeof(shard::PullNote))
                                        : decision_bytes(workers + servers);
      CHECK(simulated.server.bytes_sent == planned.servers.sent_bytes + beside);
      CHECK(simulated.bytes_sent >= planned.servers.pushed_bytes);
      CHECK(simulated.bytes_sent < planned.servers.pushed_bytes + 10'000);  // orders
      CHECK(bytes_sent_per_step(small.model, config, workers + servers) == planned.servers.pushed_bytes);
      CHECK(std::ssize(simulated.ranks) == workers);
    }
  }
}

TEST_CASE("With free messages a step of workers takes the time of its math") {
  SmallModel const small;
  for (int const staleness : {0, 3}) {
    auto const simulated = run(small.model, served(2, staleness), 10, small_work(), linked(fast_link));
    CHECK(simulated.step_ms == Approx(2 * 18));  // two micro-steps
    CHECK(simulated.exposed_comm_ms == Approx(0).margin(1e-3));
    CHECK(simulated.mfu == Approx(1));
  }
}

TEST_CASE("A server's link is busy with what all workers push, and then with what they pull") {
  Even const even;
  std::vector<UnitWork> const none(Even::units);
  auto const zero = R"(, "reduce_bucket_size": 1)";
  for (int const workers : {1, 2, 4, 8}) {
    for (int const servers : {1, 2, 4, 8}) {
      INFO(fmt::format("{} workers, {} servers", workers, servers));
      auto const config = served(servers, 0, {.accumulation = 1, .zero = zero});
      auto const simulated = run(even.model, config, workers + servers, none, linked(slow_link));
      // The busier one of a worker's link and a server's.
      double const busy_us = 2.0 * static_cast<double>(bytes_of_model) *
                             std::max(1.0, static_cast<double>(workers) / servers) / slow_link * 1e6;
      CHECK(1e3 * simulated.step_ms >= busy_us * 0.999);
      // Before the last one's turn the other slices of a unit are sent: once for pushes, and once for pulls.
      double const slice_us = static_cast<double>(Even::count * 4 / servers) / slow_link * 1e6;
      CHECK(1e3 * simulated.step_ms <= (busy_us + 2 * slice_us * (workers + servers)) * 1.02);
      CHECK(simulated.exposed_comm_ms == Approx(simulated.step_ms).epsilon(0.01));
    }
  }
}

TEST_CASE("With a slow link servers take longer than stage 1 by the ratio of what is sent") {
  Even const even;
  std::vector<UnitWork> const none(Even::units);
  testing::SmallFile const file{.accumulation = 1, .zero = R"(, "reduce_bucket_size": 1)"};
  auto const alone = run(even.model, small_config(1, file), 8, none, linked(slow_link));
  auto const one = run(even.model, served(1, 0, file), 9, none, linked(slow_link));
  CHECK(one.step_ms / alone.step_ms == Approx(8.0 * 8 / 7).epsilon(0.02));
  CHECK(alone.bytes_sent < 2 * bytes_of_model);
}

TEST_CASE("Workers that may be stale push when they come, and overlap each other's math") {
  Even const even;
  std::vector<UnitWork> const some(Even::units, UnitWork{1e6, 2e6});  // 48 ms in all
  testing::SmallFile const file{.accumulation = 1, .zero = R"(, "reduce_bucket_size": 1)"};
  constexpr int workers = 4;
  double const link_us = static_cast<double>(bytes_of_model) / slow_link * 1e6;  // 524 ms
  auto const together = run(even.model, served(1, 0, file), workers + 1, some, linked(slow_link));
  auto const stale = run(even.model, served(1, 2, file), workers + 1, some, linked(slow_link));
  CHECK(1e3 * together.step_ms > 2 * workers * link_us);
  CHECK(stale.step_ms < together.step_ms * 1.01);
  CHECK(1e3 * stale.step_ms >= 2 * workers * link_us * 0.99);  // the time on the server's link for each worker
  CHECK(stale.report.staleness <= 2);
  // With longer math workers hardly wait.
  std::vector<UnitWork> const more(Even::units, UnitWork{100e6, 200e6});
  auto const late = run(even.model, served(1, 2, file), workers + 1, more, linked(slow_link));
  CHECK(late.step_ms < run(even.model, served(1, 0, file), workers + 1, more, linked(slow_link)).step_ms);
}

TEST_CASE("A slow worker holds all others: at once without staleness, and at the bound with it") {
  SmallModel const small;
  Options const options{.all_ranks = true, .slowdown = {{1, 3}}};
  for (int const staleness : {0, 2}) {
    INFO(staleness);
    auto const simulated = run(small.model, served(1, staleness), 4, small_work(), linked(fast_link), options);
    CHECK(simulated.step_ms == Approx(3 * 2 * 18).epsilon(0.02));
    CHECK(simulated.report.staleness == staleness);
    CHECK(simulated.ranks[1].slowdown == 3);
  }
}

TEST_CASE("Simulated servers are refused where real ones are, and have no math to be slow") {
  using Catch::Contains;
  SmallModel const small;
  CHECK_THROWS_WITH(run(small.model, served(3, 0), 3, small_work(), linked(fast_link)),
                    Contains("zeroth.parameter_server.servers is 3, and there are 3 ranks"));
  CHECK_THROWS_WITH(
      run(small.model, served(1, 0), 3, small_work(), linked(fast_link), {.all_ranks = true, .slowdown = {{2, 2}}}),
      Contains("slowdown of rank 2 by 2: ranks are 0 to 1, which are workers"));
}

}  // namespace zeroth::simulate
