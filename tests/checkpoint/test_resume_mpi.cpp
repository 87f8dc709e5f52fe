// SPDX-License-Identifier: Apache-2.0
/// Processes save the same as threads, and resume from either's checkpoints. Run by mpirun, and by zeroth run over tcp.
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "engine/safetensors_file.hpp"
#include "pipeline_runs.hpp"
#include "runs.hpp"
#include "support/process_transport.hpp"
#include "tensor_runs.hpp"

namespace zeroth::testing {
namespace {

namespace fs = std::filesystem;
constexpr int at = 3, steps = 6;

/// One folder for all processes of a launcher. The last to leave removes it.
class SharedFolder {
 public:
  SharedFolder() : path_{fs::temp_directory_path() / fmt::format("zeroth-test-processes-{}", ::getppid())} {
    fs::create_directories(path_);
  }
  SharedFolder(SharedFolder const&) = delete;
  SharedFolder& operator=(SharedFolder const&) = delete;
  ~SharedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] fs::path operator/(std::string const& name) const { return path_ / name; }

 private:
  fs::path path_;
};

struct OfOneRank {
  int rank = 0, world = 0;
  Trained trained;
};

/// No process leaves before all have arrived, so that all see what was saved.
template <class F>
OfOneRank run_as_process(F const& body) {
  OfOneRank result;
  int const status = launch({.transport = process_transport()}, [&](Job& job) {
    result = {job.rank(), job.world(), body(job)};
    double one = 1;
    job.sum({&one, 1});
  });
  REQUIRE(status == 0);
  return result;
}

OfOneRank train_as_processes(std::string const& text, TrainOptions const& options) {
  return run_as_process([&](Job& job) { return train_synthetic(job, Config::from_json(text), options); });
}

}  // namespace

TEST_CASE("processes and threads resume from each other's checkpoints, bit for bit") {
  SharedFolder const shared;
  Types const types[] = {fp32_types, bf16_types, fp16_types, bf16_masters_and_moments};
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("{}, stage {}", types[stage].name, stage));
    auto const text = varied_file(types[stage], stage);
    auto const name = [&](char const* what) { return fmt::format("{}{}", what, stage); };
    // The runs of each process alone, with threads, use a folder of its own.
    Folder const own;
    train_as_processes(text, saving(shared / name("first"), at, at));
    auto const resumed = train_as_processes(varied_file(types[stage], 3 - stage),
                                            resuming(shared / name("first"), steps, shared / name("second")));
    auto const straight = train(resumed.world, text, saving(own / "straight", steps, steps));
    CHECK(bits_behind(at, resumed.trained) == bits_behind(at, straight));
    CHECK(states_in(shared / name("second") / "step_00000006") == states_in(own / "straight/step_00000006"));
    auto const on_threads = train(resumed.world, text, resuming(shared / name("first"), steps, own / "threads"));
    CHECK(bits_behind(at, on_threads) == bits_behind(at, straight));
    train_as_processes(text, {.steps = 1});  // waits, so that no process removes or overtakes what another still reads
  }
}

TEST_CASE("pipelines of processes resume from checkpoints of threads, and threads from theirs") {
  SharedFolder const shared;
  Folder const own;
  auto const saving_at = [](fs::path const& folder, int last) {
    ChainRun run;
    run.options.steps = last;
    run.after_step = [=](AnyEngine& engine, int step) {
      if (step == last) {
        engine.save(folder).wait();
        engine.save_weights(folder / "weights");
      }
    };
    return run;
  };
  auto const going_on = [&](fs::path const& from, fs::path const& into) {
    auto run = saving_at(into, steps);
    run.begin = [=](AnyEngine& engine) { return static_cast<int>(engine.restore(from).step); };
    return run;
  };
  Shape const one{.stages = 1, .data = 1, .zero = 1};
  auto const config_of_one = config_of(bf16_types, one);
  auto const straight = bits_behind(at, train_chains(config_of_one, one, saving_at(own / "straight", steps)));
  auto const as_processes = [&](ChainRun const& run) {
    return run_as_process([&](Job& job) {
      Shape const shape{.stages = job.world(), .data = 1, .zero = 3};
      return train_chain(job, config_of(bf16_types, shape), shape, run);
    });
  };
  as_processes(saving_at(shared / "first", at));
  auto const resumed = as_processes(going_on(shared / "first", shared / "second"));
  CHECK(bits_behind(at, resumed.trained) == straight);
  CHECK(states_in(shared / "second/step_00000006") == states_in(own / "straight/step_00000006"));
  CHECK(read_file(shared / "second/weights") == read_file(own / "straight/weights"));
  CHECK(bits_behind(at, train_chains(config_of_one, one, going_on(shared / "first", own / "threads"))) == straight);
  train_as_processes(varied_file(fp32_types, 0), {.steps = 1});  // waits, so that no process removes what another still
                                                                 // reads
}

TEST_CASE("tensor ranks that are processes resume from their own checkpoints, and threads from theirs") {
  SharedFolder const shared;
  Folder const own;
  auto const going_on = [](fs::path const& from, fs::path const& into) {
    auto options = saving_grid(into, steps, steps, {});
    options.begin = [=](AnyEngine& engine) { return static_cast<int>(engine.restore(from).step); };
    return options;
  };
  auto const as_processes = [](DividedOptions const& options) {
    return run_as_process([&](Job& job) {
      Grid const grid{.tensor = job.world(), .zero = 3};
      return train_divided(job, config_of(bf16_types, grid), options);
    });
  };
  as_processes(saving_grid(shared / "tensor", at, at, {}));
  auto const resumed = as_processes(going_on(shared / "tensor", shared / "tensor_second"));
  Grid const grid{.tensor = resumed.world, .zero = 1};
  auto const config = config_of(bf16_types, grid);
  auto const straight = train_grid(config, grid, saving_grid(own / "straight", steps, steps, {}));
  auto const on_threads = train_grid(config, grid, going_on(shared / "tensor", own / "threads"));
  CHECK(grid_bits_behind(at, resumed.trained) == grid_bits_behind(at, straight));
  CHECK(grid_bits_behind(at, on_threads) == grid_bits_behind(at, straight));
  CHECK(states_in(shared / "tensor_second/step_00000006") == states_in(own / "straight/step_00000006"));
  train_as_processes(varied_file(fp32_types, 0), {.steps = 1});  // waits, so that no process removes what another still
                                                                 // reads
}

}  // namespace zeroth::testing
