// SPDX-License-Identifier: Apache-2.0
/// launch() in processes on GPUs that a launcher has started. The test is such a process, the only one of its job.
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

#include "cuda/nccl_ranks.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/log.hpp"

namespace zeroth::testing {
namespace {

/// Sets variables of this process during its lifetime.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> variables) : variables_{std::move(variables)} {
    for (auto const& [name, value] : variables_) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  Variables(Variables const&) = delete;
  Variables& operator=(Variables const&) = delete;
  ~Variables() {
    for (auto const& [name, value] : variables_) {
      ::unsetenv(name.c_str());
    }
  }

 private:
  std::map<std::string, std::string> variables_;
};

Variables torchrun(ReservedPort const& port, std::string const& local_rank) {
  return Variables{{{"RANK", "0"},
                    {"WORLD_SIZE", "1"},
                    {"LOCAL_RANK", local_rank},
                    {"MASTER_ADDR", "127.0.0.1"},
                    {"MASTER_PORT", std::to_string(port.number())}}};
}

constexpr LaunchOptions by_nccl{.transport = comm::Transport::nccl, .device = DeviceKind::cuda};

}  // namespace

TEST_CASE("a process of torchrun is a rank on the GPU of its local rank") {
  ReservedPort const port;
  begin_nccl({.gpus = 2});
  std::string device;
  {
    auto const variables = torchrun(port, "0");
    int const status = launch(by_nccl, [&](Job& job) {
      SmallModel const small;
      auto const config = small_config(3);
      Engine<float> const engine{job, small.model, config};
      CHECK(job.communicator().transport() == comm::Transport::nccl);
      device = this_rank().device;
    });
    CHECK(status == 0);
  }
  CHECK(device == "cuda:0");
  CHECK(left_over() == "");
}

TEST_CASE("setting the launch order is warned about only if NCCL may have been used before") {
  constexpr char const* variable = "NCCL_LAUNCH_ORDER_IMPLICIT";
  std::string const warning = "libnccl was in this process before NCCL_LAUNCH_ORDER_IMPLICIT was set to 1";
  auto const warnings = [&](bool was_there, bool is_set) {
    ReservedPort const port;
    begin_nccl();
    if (was_there) {
      fake_nccl::be_there_before();
    }
    if (is_set) {
      ::setenv(variable, "1", 1);
    } else {
      ::unsetenv(variable);
    }
    Log const log;
    static_cast<void>(make_session(0, 1, port.number(), 0));
    CHECK(std::string{std::getenv(variable)} == "1");
    return log.count(warning);
  };
  CHECK(warnings(true, false) == 1);
  CHECK(warnings(true, true) == 0);
  CHECK(warnings(false, false) == 0);
  CHECK(warnings(false, true) == 0);
}

TEST_CASE("jobs by NCCL that cannot start are refused") {
  ReservedPort const port;
  begin_nccl({.gpus = 2});
  CHECK(launch(by_nccl, [](Job&) {}) == ExitCode::wrong);  // no launcher
  CHECK(launch({.transport = comm::Transport::nccl}, [](Job&) {}) == ExitCode::wrong);
  {
    auto const variables = torchrun(port, "0");
    auto sharing = by_nccl;
    sharing.share_devices = true;
    CHECK(launch(sharing, [](Job&) {}) == ExitCode::wrong);
    CHECK(launch(by_nccl, [](Job&) {}) == 0);
  }
  begin_nccl({.gpus = 0});
  auto const variables = torchrun(port, "0");
  CHECK(launch(by_nccl, [](Job&) {}) == ExitCode::wrong);
  CHECK(left_over() == "");
}

}  // namespace zeroth::testing
