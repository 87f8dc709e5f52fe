// SPDX-License-Identifier: Apache-2.0
/// Processes train like threads, bit for bit: at every stage, dtype and reduction rule. Run by mpirun, and by zeroth
/// run over tcp; every rank compares itself with a job of as many threads in its own process.
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/job_exchange.hpp"
#include "engine/random_nest.hpp"
#include "parts.hpp"
#include "pipeline_calls.hpp"
#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/process_transport.hpp"
#include "support/synthetic.hpp"
#include "tensor.hpp"
#include "tiers.hpp"

namespace zeroth::testing {
namespace {

struct OfOneRank {
  int rank = 0, world = 0;
  Trained trained;
};

OfOneRank train_as_processes(Config const& config) {
  OfOneRank result;
  int const status = launch({.transport = process_transport()}, [&](Job& job) {
    result = {job.rank(), job.world(), train_synthetic(job, config, {})};
  });
  REQUIRE(status == 0);
  return result;
}

/// Trains once; all tests share the results.
Trained const& train_on_threads(int world, int rank, std::string const& text) {
  static std::map<std::string, std::vector<Trained>> all;
  auto& results = all[text];
  if (results.empty()) {
    auto const config = Config::from_json(text);
    results.resize(static_cast<std::size_t>(world));
    auto const outcome = run_job(
        world, [&](Job& job) { results[static_cast<std::size_t>(job.rank())] = train_synthetic(job, config, {}); });
    REQUIRE(messages_of(outcome) == "");
  }
  return results[static_cast<std::size_t>(rank)];
}

TEST_CASE("processes exchange bytes of any length, and are told who shares their machine") {
  std::string problem = "?";
  int const status = launch({.transport = process_transport()}, [&](Job& job) { problem = problem_of_exchange(job); });
  REQUIRE(status == 0);
  CHECK(problem == "");
}

TEST_CASE("processes train like threads with every codec") {
  for (auto const& each : {std::pair{0, "exact"}, std::pair{1, "int8"}, std::pair{1, "sign"}, std::pair{2, "int4"},
                           std::pair{3, "exact"}}) {
    int const stage = each.first;
    auto const* const codec = each.second;
    INFO(codec << " at stage " << stage);
    auto const text = [&](char const* with) {
      return file(bf16_types, stage, 2, "every_micro_step", movements[stage],
                  fmt::format(R"(, "reduce_codec": "{}", "gather_codec": "int8")", with));
    };
    auto const [rank, world, trained] = train_as_processes(Config::from_json(text(codec)));
    REQUIRE(bits_of(trained) == bits_of(train_on_threads(world, rank, text(codec))));
    REQUIRE(trained.planned == trained.peak);
    if (codec == std::string{"exact"}) {
      REQUIRE(bits_of(trained) == bits_of(train_on_threads(world, rank, text("none"))));
    }
  }
}

TEST_CASE("processes with parameter servers train like threads at stage 1") {
  for (auto const& types : {fp32_types, bf16_types, fp16_types}) {
    INFO(types.name);
    auto const text = [&](int stage, int servers) {
      return file(types, stage, 2, "every_micro_step", movements[2],
                  fmt::format(R"(, "parameter_server": {{"servers": {}}})", servers));
    };
    int world = 0;
    int rank = 0;
    int servers = 1;
    Trained trained;
    int const status = launch({.transport = process_transport()}, [&](Job& job) {
      world = job.world();
      rank = job.rank();
      servers = world > 3 ? 2 : 1;
      trained = train_synthetic(job, Config::from_json(text(0, servers)), {});
    });
    REQUIRE(status == 0);
    REQUIRE(trained.planned == trained.peak);
    if (rank < world - servers) {
      REQUIRE(bits_of(trained) == bits_of(train_on_threads(world - servers, rank, text(1, 0))));
    }
  }
}

TEST_CASE("processes that may be stale are never further ahead than the bound") {
  auto const config =
      Config::from_json(file(fp32_types, 0, 2, "last_micro_step", movements[0]))
          .with(R"({"gradient_clipping": 0, "zeroth": {"parameter_server": {"servers": 1, "staleness": 2}}})");
  bool serves = false;
  Trained trained;
  int const status = launch({.transport = process_transport()}, [&](Job& job) {
    serves = job.rank() + 1 == job.world();
    TrainOptions options;
    options.steps = 20;
    options.waits = true;
    options.evaluates = false;
    trained = train_synthetic(job, config, options);
  });
  REQUIRE(status == 0);
  REQUIRE(trained.planned == trained.peak);
  REQUIRE(trained.reports.size() == (serves ? 0 : 20));
  for (auto const& report : trained.reports) {
    REQUIRE(report.staleness >= 0);
    REQUIRE(report.staleness <= 2);
    REQUIRE(std::isfinite(report.loss));
  }
}

TEST_CASE("processes in a pipeline train like threads without one, at every ZeRO stage") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    int world = 0;
    int stages = 1;
    Trained trained;
    ChainOptions const options{.ties = stage % 2 == 0 ? Chain::Ties::near : Chain::Ties::across};
    auto const text = [&](int of) {
      return file(bf16_types, stage, 4, "every_micro_step", movements[stage],
                  fmt::format(R"(, "tied_gradients": "apart", "mesh": {{"pipeline": {}}})", of));
    };
    int const status = launch({.transport = process_transport()}, [&](Job& job) {
      world = job.world();
      stages = world % 2 == 0 ? 2 : world;
      trained = train_chain(job, Config::from_json(text(stages)), options, true);
    });
    REQUIRE(status == 0);
    std::vector<Trained> threads(static_cast<std::size_t>(world / stages));
    auto const outcome = run_job(world / stages, [&](Job& job) {
      threads[static_cast<std::size_t>(job.rank())] = train_chain(job, Config::from_json(text(1)), options, false);
    });
    REQUIRE(messages_of(outcome) == "");
    REQUIRE(trained.reports.size() == 4);
    REQUIRE(bits_of(trained) == bits_of(threads.front()));
    REQUIRE(trained.planned == trained.peak);
  }
}

TEST_CASE("processes that divide layers train like threads, at every ZeRO stage") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    int world = 0;
    int rank = 0;
    Trained trained;
    auto const options = [&] { return DividedOptions{.sequence = world % 2 == 0, .steps = 3}; };
    auto const config = [&] {
      return Config::from_json(file(bf16_types, stage, 4, "every_micro_step", movements[stage],
                                    fmt::format(R"(, "mesh": {{"tensor": {}}})", world % 2 == 0 ? 2 : world)));
    };
    int const status = launch({.transport = process_transport()}, [&](Job& job) {
      world = job.world();
      rank = job.rank();
      trained = train_divided(job, config(), options());
    });
    REQUIRE(status == 0);
    std::vector<Trained> threads(static_cast<std::size_t>(world));
    auto const outcome = run_job(world, [&](Job& job) {
      threads[static_cast<std::size_t>(job.rank())] = train_divided(job, config(), options());
    });
    REQUIRE(messages_of(outcome) == "");
    REQUIRE(trained.reports.size() == 3);
    REQUIRE(bits_of(trained) == bits_of(threads[static_cast<std::size_t>(rank)]));
    REQUIRE(trained.planned == trained.peak);
  }
}

/// The results of calls on a mesh between steps.
std::vector<float> answers_of(Job& job, Config const& config) {
  Chain const chain;
  Mesh mesh{job, config};
  Engine<bf16> engine{mesh, chain.model, config};
  std::vector<float> said;
  for (int step = 1; step <= 4; ++step) {
    said.push_back(evaluate(engine, chain, 3));
    run_actions(engine, chain, {}, step, false);
    said.push_back(engine.gradient_norm());
    said.push_back(engine.gradient_norm(*chain.layers.back().bias));
    engine.step();
  }
  engine.finish();
  return said;
}

TEST_CASE("processes in a pipeline have the evaluations and norms of threads in one stage") {
  auto const config = [](int stages) {
    return Config::from_json(file(bf16_types, 3, 4, "every_micro_step", movements[3],
                                  fmt::format(R"(, "tied_gradients": "apart", "mesh": {{"pipeline": {}}})", stages)));
  };
  int data = 1;
  std::vector<float> said;
  int const status = launch({.transport = process_transport()}, [&](Job& job) {
    auto const stages = job.world() % 2 == 0 ? 2 : job.world();
    data = job.world() / stages;
    said = answers_of(job, config(stages));
  });
  REQUIRE(status == 0);
  std::vector<float> on_threads;
  auto const outcome = run_job(data, [&](Job& job) {
    auto const mine = answers_of(job, config(1));
    if (job.rank() == 0) {
      on_threads = mine;
    }
  });
  REQUIRE(messages_of(outcome) == "");
  REQUIRE(said.size() == 12);
  CHECK(said == on_threads);
}

TEST_CASE("processes train the same batch like one rank, at every stage") {
  constexpr int batch = 12;
  TrainOptions options;
  options.batch = batch;
  auto const text = [](int stage, int world) {
    return file(bf16_types, stage, batch / world, "every_micro_step", movements[stage],
                R"(, "same_bits_at_any_ranks": true)");
  };
  Trained alone;
  auto const outcome =
      run_job(1, [&](Job& job) { alone = train_synthetic(job, Config::from_json(text(0, 1)), options); });
  REQUIRE(messages_of(outcome) == "");
  for (int stage = 0; stage <= 3; ++stage) {
    Trained mine;
    int const status = launch({.transport = process_transport()}, [&](Job& job) {
      mine = train_synthetic(job, Config::from_json(text(stage, job.world())), options);
    });
    REQUIRE(status == 0);
    INFO("stage " << stage);
    CHECK(bits_of(mine) == bits_of(alone));
  }
}

TEST_CASE("processes and threads are bit-equal at every stage") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const* const reduce = GENERATE("every_micro_step", "last_micro_step");
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& move = movements[stage % 2 == 0 ? 0 : 2];
    auto const mine = train_as_processes(Config::from_json(file(types, stage, 2, reduce, move)));
    auto const& theirs = train_on_threads(mine.world, mine.rank, file(types, 0, 2, reduce, movements[1]));
    INFO(fmt::format("rank {} of {}, {}, {}, stage {}", mine.rank, mine.world, types.name, reduce, stage));
    CHECK(mine.trained.reports.size() == 4);
    CHECK(bits_of(mine.trained) == bits_of(theirs));
    CHECK(mine.trained.planned == mine.trained.peak);
  }
}

TEST_CASE("processes with delayed updates train like threads at stage 0 with them") {
  for (int stage = 0; stage <= 2; ++stage) {
    auto const text = [](int of, Movement const& move) {
      return file(bf16_types, of, 2, "every_micro_step", move, R"(, "delayed_update": true)");
    };
    auto const mine = train_as_processes(Config::from_json(text(stage, movements[2])));
    INFO(fmt::format("rank {} of {}, stage {}", mine.rank, mine.world, stage));
    CHECK(bits_of(mine.trained) == bits_of(train_on_threads(mine.world, mine.rank, text(0, movements[1]))));
    CHECK(mine.trained.planned == mine.trained.peak);
  }
}

TEST_CASE("processes with states on a disk train like threads in memory") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& disk = on_disks[static_cast<std::size_t>(stage)];
    auto const config = Config::from_json(file(types, stage, 2, "every_micro_step", movements[0]));
    auto const mine = train_as_processes(on_disk(config, disk, std::filesystem::temp_directory_path()));
    auto const& theirs = train_on_threads(mine.world, mine.rank, file(types, 0, 2, "every_micro_step", movements[1]));
    INFO(fmt::format("rank {} of {}, {}, stage {}; {}", mine.rank, mine.world, types.name, stage, disk.name()));
    CHECK(bits_of(mine.trained) == bits_of(theirs));
    CHECK(mine.trained.planned == mine.trained.peak);
  }
}

TEST_CASE("processes with parameters on a disk train like threads in memory") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  for (auto const& disk : parameters_on_disks) {
    auto const folder = std::filesystem::temp_directory_path();
    auto const config = Config::from_json(file(types, 3, 2, "every_micro_step", movements[0]));
    auto const mine = train_as_processes(parameters_on_disk(config, disk, folder));
    auto const& theirs = train_on_threads(mine.world, mine.rank, file(types, 0, 2, "every_micro_step", movements[1]));
    INFO(fmt::format("rank {} of {}, {}; {}", mine.rank, mine.world, types.name, disk.name()));
    CHECK(bits_of(mine.trained) == bits_of(theirs));
    CHECK(mine.trained.planned == mine.trained.peak);
  }
}

TEST_CASE("parts of a job of processes train like jobs of threads of the same size") {
  for (int stage = 0; stage <= 3; ++stage) {
    OfPart mine;
    int const status = launch({.transport = process_transport()}, [&](Job& job) { mine = train_in_parts(job, stage); });
    REQUIRE(status == 0);
    std::vector<std::vector<std::uint32_t>> plain(static_cast<std::size_t>(mine.world));
    auto const outcome = run_job(
        mine.world, [&](Job& job) { plain[static_cast<std::size_t>(job.rank())] = train_as(job, mine.color, stage); });
    REQUIRE(messages_of(outcome) == "");
    INFO(fmt::format("stage {}, rank {} of {} of part {}", stage, mine.rank, mine.world, mine.color));
    REQUIRE(mine.bits.size() > 300);
    CHECK(mine.bits == plain[static_cast<std::size_t>(mine.rank)]);
  }
}

TEST_CASE("processes that skip units inside guards that others hold open train like threads at stage 0") {
  for (unsigned seed = 0; seed < 24; ++seed) {
    bool const holds = seed % 2 == 0;
    int const stage = seed % 4 == 3 ? 2 : 3;
    int rank = 0;
    int world = 0;
    std::vector<std::uint32_t> mine;
    int const status = launch({.transport = process_transport()}, [&](Job& job) {
      rank = job.rank();
      world = job.world();
      mine = RandomNest{seed}.train(job, nest_config(seed, stage, holds), holds);
    });
    REQUIRE(status == 0);
    std::vector<std::vector<std::uint32_t>> plain(static_cast<std::size_t>(world));
    auto const outcome = run_job(world, [&](Job& job) {
      plain[static_cast<std::size_t>(job.rank())] = RandomNest{seed}.train(job, nest_config(seed, 0, holds), holds);
    });
    REQUIRE(messages_of(outcome) == "");
    INFO(fmt::format("model {}, rank {} of {}, stage {}, guards held: {}", seed, rank, world, stage, holds));
    CHECK(mine == plain[static_cast<std::size_t>(rank)]);
  }
}

}  // namespace
}  // namespace zeroth::testing
