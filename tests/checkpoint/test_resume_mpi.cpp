// SPDX-License-Identifier: Apache-2.0
/// Processes save what threads do, and go on from what either has saved. Run by mpirun, and by zeroth run over tcp.
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "runs.hpp"
#include "support/process_transport.hpp"

namespace zeroth::testing {
namespace {

namespace fs = std::filesystem;
constexpr int at = 3, steps = 6;

/// One for all processes that one launcher has started. The last to leave removes it.
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

/// Nobody leaves before all have come, so that all see what was saved.
OfOneRank train_as_processes(std::string const& text, TrainOptions const& options) {
  OfOneRank result;
  int const status = launch({.transport = process_transport()}, [&](Job& job) {
    result = {job.rank(), job.world(), train_synthetic(job, Config::from_json(text), options)};
    double one = 1;
    job.sum({&one, 1});
  });
  REQUIRE(status == 0);
  return result;
}

}  // namespace

TEST_CASE("processes and threads go on from each other's checkpoints, bit for bit") {
  SharedFolder const shared;
  Types const types[] = {fp32_types, bf16_types, fp16_types, bf16_masters_and_moments};
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("{}, stage {}", types[stage].name, stage));
    auto const text = varied_file(types[stage], stage);
    auto const name = [&](char const* what) { return fmt::format("{}{}", what, stage); };
    // What each process does alone, with threads, is in a folder of its own.
    Folder const own;
    train_as_processes(text, saving(shared / name("first"), at, at));
    auto const resumed = train_as_processes(varied_file(types[stage], 3 - stage),
                                            resuming(shared / name("first"), steps, shared / name("second")));
    auto const straight = train(resumed.world, text, saving(own / "straight", steps, steps));
    CHECK(bits_behind(at, resumed.trained) == bits_behind(at, straight));
    CHECK(states_in(shared / name("second") / "step_00000006") == states_in(own / "straight/step_00000006"));
    auto const on_threads = train(resumed.world, text, resuming(shared / name("first"), steps, own / "threads"));
    CHECK(bits_behind(at, on_threads) == bits_behind(at, straight));
    train_as_processes(text, {.steps = 1});  // nobody removes or overtakes what another still reads
  }
}

}  // namespace zeroth::testing
