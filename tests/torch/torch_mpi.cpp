// SPDX-License-Identifier: Apache-2.0
/// Processes train modules as threads do, bit for bit, and dropout, for which threads have too few generators. Run by
/// mpirun, and by zeroth run over tcp; every rank compares itself with a job of as many threads in its own process.
#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "gan.hpp"
#include "support/process_transport.hpp"
#include "support/resident.hpp"
#include "support/rules.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

/// This rank's results in a job of processes, and the number of ranks.
std::pair<Trained, int> train_in_processes(Config const& config, MakeProgram const& make, Run const& run = {}) {
  std::pair<Trained, int> result;
  int const status = torch_adapter::launch({.transport = process_transport()}, [&](Job& job) {
    result = {train(job, config, make, run), job.world()};
  });
  REQUIRE(status == 0);
  CHECK(result.first.planned == result.first.peak);
  return result;
}

/// A file with micro-steps, which all stages sum alike.
File in_micro_steps(int stage) {
  return {.stage = stage, .accumulation = 3, .zeroth = R"("reduce_gradients": "every_micro_step")"};
}

TEST_CASE("processes train modules like threads, at every stage") {
  for (auto const make : {gpt_program, vision_program, odd_program}) {
    for (int stage : {0, 1, 2, 3}) {
      auto const [mine, world] = train_in_processes(File{.stage = stage}.config(), make);
      INFO("stage " << stage << " on " << world << " ranks");
      CHECK(bits_of(mine) == bits_of(train_on_threads(world, File{}.config(), make)));
    }
  }
}

TEST_CASE("a GAN with two Trainers trains in processes like on threads, at every stage") {
  for (int stage : {0, 1, 2, 3}) {
    auto const config = in_micro_steps(stage).config();
    std::pair<Trained, int> mine;
    int const status = torch_adapter::launch({.transport = process_transport()}, [&](Job& job) {
      mine = {train_gan(job, config, config), job.world()};
    });
    REQUIRE(status == 0);
    INFO("stage " << stage << " on " << mine.second << " ranks");
    auto const expected = in_micro_steps(0).config();
    CHECK(bits_of(mine.first) == bits_of(train_gan_on_threads(mine.second, expected, expected)));
  }
}

TEST_CASE("a unit that some ranks skip in a micro-step trains in processes like on threads, at every stage") {
  for (int stage : {0, 1, 2, 3}) {
    auto const [mine, world] = train_in_processes(in_micro_steps(stage).config(), experts_program);
    INFO("stage " << stage << " on " << world << " ranks");
    CHECK(bits_of(mine) == bits_of(train_on_threads(world, in_micro_steps(0).config(), experts_program)));
  }
}

TEST_CASE("a program's own rule trains modules in processes like the library's rule on threads") {
  File const library{.optimizer = R"("type": "SGD", "params": {"momentum": 0.75, "dampening": 0.25})"};
  for (int stage : {0, 1, 2, 3}) {
    auto const config = File{.stage = stage, .optimizer = ""}.config().with(own_momentum());
    auto const [mine, world] = train_in_processes(config, gpt_program);
    INFO("stage " << stage << " on " << world << " ranks");
    CHECK(bits_of(mine) == bits_of(train_on_threads(world, library.config(), gpt_program)));
  }
}

TEST_CASE("a process that makes a module by deferred_init() never holds more than its shards and one unit") {
  constexpr int units = 24;
  auto const construct = [](bool is_deferred) {
    std::pair<std::int64_t, int> seen;
    int const status = torch_adapter::launch({.transport = process_transport()}, [&](Job& job) {
      ::malloc_trim(0);
      forget_peak();
      auto const before = resident_bytes();
      make_wide_trainer(job, units, is_deferred);
      seen = {peak_resident_bytes() - before, job.world()};
    });
    REQUIRE(status == 0);
    return seen;
  };
  static_cast<void>(construct(true));  // pages of libtorch's code are loaded
  auto const [plain, world] = construct(false);
  auto const without_memory = construct(true).first;
  INFO("grown by " << plain << ", and by " << without_memory << " with deferred_init(), on " << world << " ranks");
  CHECK(plain > units * wide_bytes);
  CHECK(without_memory < plain - (units - 2) * wide_bytes);
  if (process_transport() == comm::Transport::mpi) {  // over tcp the memory of all ranks' engines counts
    CHECK(without_memory < units * wide_bytes / world + 2 * wide_bytes);  // a shard, a unit, and MPI's memory
  }
}

TEST_CASE("dropout in processes has the masks of its seed, at every stage and with recompute") {
  auto const expected = bits_of(train_in_processes(in_micro_steps(0).config(), dropout_program).first);
  for (int stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    auto const config = in_micro_steps(stage).config();
    CHECK(bits_of(train_in_processes(config, dropout_program).first) == expected);
    CHECK(bits_of(train_in_processes(config, dropout_recomputed).first) == expected);
  }
}

TEST_CASE("dropout after a resume in processes has each rank's own masks, at every stage") {
  // The same for all ranks, which the same launcher has started.
  auto const name = "zeroth-torch-" + std::to_string(::getppid());
  for (int stage : {0, 3}) {
    INFO("stage " << stage);
    auto const folder = std::filesystem::temp_directory_path() / (name + "-" + std::to_string(stage));
    auto const config = in_micro_steps(stage).config();
    Run run{.steps = 5, .evaluates = false};
    run.begin = [](torch_adapter::Trainer& trainer) {
      torch::manual_seed(static_cast<std::uint64_t>(100 + trainer.engine().place()));
    };
    auto const whole = train_in_processes(config, dropout_going_on, run).first;
    run.steps = 3;
    run.after_step = [&](torch_adapter::Trainer& trainer, int step) {
      if (step == 3) {
        trainer.save(folder).wait();
      }
    };
    static_cast<void>(train_in_processes(config, dropout_going_on, run));
    Run resuming{.steps = 2, .evaluates = false};
    resuming.begin = [&](torch_adapter::Trainer& trainer) { trainer.restore_latest(folder); };
    auto const resumed = train_in_processes(config, dropout_going_on, resuming).first;
    CHECK(resumed.losses == std::vector(whole.losses.begin() + 3, whole.losses.end()));
    CHECK(resumed.weights == whole.weights);
    static_cast<void>(train_in_processes(config, dropout_going_on, {.steps = 1, .evaluates = false}));  // all have read
    std::error_code ignored;  // another rank has been faster
    std::filesystem::remove_all(folder, ignored);
  }
}

}  // namespace
}  // namespace zeroth::testing
