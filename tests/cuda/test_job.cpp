// SPDX-License-Identifier: Apache-2.0
/// A program's way to GPUs: launch, and files that CPU and GPU share.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/cuda_access.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda/fake_cuda.hpp"
#include "support/folder.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/timeline.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {
namespace {

std::string text_of(std::filesystem::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

TrainOptions options_of(DeviceKind kind) {
  TrainOptions options;
  if (kind == DeviceKind::cuda) {
    options.access = CudaAccess::make;
  }
  return options;
}

/// Trains two steps, after `before(engine)`, and saves.
template <class Before>
void train_and_save(DeviceKind kind, Config const& config, std::filesystem::path const& file, Before const& before) {
  fake_cuda::reset();
  auto options = options_of(kind);
  options.steps = 2;
  int const status = launch({.thread_ranks = 3, .device = kind, .share_devices = true}, [&](Job& job) {
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      SyntheticModel const synthetic;
      Trainer<T, G> trainer{job, synthetic, config, options};
      before(trainer.engine());
      static_cast<void>(trainer.run());
      trainer.engine().save_weights(file);
    });
  });
  REQUIRE(status == 0);
  REQUIRE(fake_cuda::leftovers() == "");
}

}  // namespace

TEST_CASE("launch puts ranks on GPUs, one after another") {
  fake_cuda::reset({.gpus = 2});
  std::vector<std::string> devices(4);
  int const status = launch({.thread_ranks = 4, .device = DeviceKind::cuda, .share_devices = true}, [&](Job& job) {
    SmallModel const small;
    Engine<float> const engine{job, small.model, small_config(1)};
    devices[static_cast<std::size_t>(job.rank())] = this_rank().device;
  });
  CHECK(status == 0);
  CHECK(devices == std::vector<std::string>{"cuda:0", "cuda:1", "cuda:0", "cuda:1"});
  CHECK(launch({.thread_ranks = 4, .device = DeviceKind::cuda}, [](Job&) {}) == ExitCode::wrong);
  fake_cuda::reset({.gpus = 0});
  CHECK(launch({.device = DeviceKind::cuda}, [](Job&) {}) == ExitCode::wrong);
  fake_cuda::reset();
}

TEST_CASE("a GPU saves the same weight files as the CPU, and either loads them") {
  Folder const folder;
  for (int stage = 0; stage <= 3; ++stage) {
    auto const config = small_config(stage, {.more = R"(, "bf16": {"enabled": true})"});
    auto const train = [&](DeviceKind kind, char const* to, char const* from) {
      train_and_save(kind, config, folder / to, [&](auto& engine) {
        if (from != nullptr) {
          engine.load_weights(folder / from);
        }
      });
      return text_of(folder / to);
    };
    INFO(fmt::format("stage {}", stage));
    auto const on_cpu = train(DeviceKind::cpu, "cpu", nullptr);
    CHECK(on_cpu.size() > 10'000);
    CHECK(train(DeviceKind::cuda, "gpu", nullptr) == on_cpu);
    auto const after_cpu = train(DeviceKind::cpu, "from_gpu", "gpu");
    CHECK(after_cpu != on_cpu);
    CHECK(train(DeviceKind::cuda, "from_cpu", "cpu") == after_cpu);
  }
}

TEST_CASE("an engine on a GPU traces its streams") {
  fake_cuda::reset();
  Timeline timeline;
  int const status = launch({.thread_ranks = 2, .device = DeviceKind::cuda, .share_devices = true}, [&](Job& job) {
    auto options = options_of(DeviceKind::cuda);
    options.evaluates = false;
    SyntheticModel const synthetic;
    Trainer<float, float> trainer{job, synthetic, small_config(3), options};
    if (job.rank() == 0) {
      trainer.engine().trace(&timeline);
    }
    static_cast<void>(trainer.run());
  });
  REQUIRE(status == 0);
  for (auto const* const expected : {"gather", "reduce", "forward", "backward", "update", "decide"}) {
    bool found = false;
    for (auto const& span : timeline.spans()) {
      found = found || span.what == expected;
      CHECK(span.end_us >= span.begin_us);
    }
    CAPTURE(expected);
    CHECK(found);
  }
}

}  // namespace zeroth::testing
