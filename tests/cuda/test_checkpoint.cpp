// SPDX-License-Identifier: Apache-2.0
/// Ranks on a GPU save the same checkpoints as ranks on the CPU, and resume from those of either, bit for bit.
#include <fmt/format.h>

#include <string>

#include "checkpoint/runs.hpp"
#include "cuda/cuda_access.hpp"
#include "cuda/gpus.hpp"
#include "cuda/trained.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

constexpr int at = 3, steps = 6;

Trained train_on_gpu(int world, std::string const& text, TrainOptions options, Gpus const& gpus = {}) {
  begin_on(gpus);
  options.access = CudaAccess::make;
  auto result =
      train_by(threads_on([&](int rank) { return device::make_cuda_device(rank % gpus.count); }), world, text, options);
  REQUIRE(left_on_gpus() == "");
  return result;
}

}  // namespace

TEST_CASE("a run resumes from a GPU on the CPU, and back") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types, bf16_masters_and_moments);
  for (int stage = 0; stage <= 3; ++stage) {
    static Sample sample{3};
    if (sample.leaves_out()) {
      continue;
    }
    INFO(fmt::format("{}, stage {}", types.name, stage));
    Folder const folder;
    auto const text = varied_file(types, stage);
    auto const other = varied_file(types, 3 - stage);
    auto const straight = train(2, text, saving(folder / "straight", steps, steps));
    auto const expected = states_in(folder / "straight/step_00000006");
    train(2, text, saving(folder / "cpu", at, at));
    train_on_gpu(2, text, saving(folder / "gpu", at, at));
    CHECK(states_in(folder / "gpu/step_00000003") == states_in(folder / "cpu/step_00000003"));
    auto const on_gpu = train_on_gpu(2, other, resuming(folder / "cpu", steps, folder / "on gpu"), {.delays = 3});
    CHECK(bits_behind(at, on_gpu) == bits_behind(at, straight));
    CHECK(states_in(folder / "on gpu/step_00000006") == expected);
    auto const on_cpu = train(2, other, resuming(folder / "gpu", steps, folder / "on cpu"));
    CHECK(bits_behind(at, on_cpu) == bits_behind(at, straight));
    CHECK(states_in(folder / "on cpu/step_00000006") == expected);
  }
}

TEST_CASE("late work on some streams does not change a save") {
  for (unsigned const delays : {5U, 11U}) {
    for (int stage = 0; stage <= 3; ++stage) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("stage {}, delays {}", stage, delays));
      Folder const folder;
      auto const text = varied_file(bf16_types, stage);
      auto const base = train(3, text, {.steps = 8});
      TrainOptions options{.steps = 8};
      options.after_step = [&](AnyEngine& engine, int step) {
        if (step % 3 == 1) {
          static_cast<void>(engine.save(folder / "gpu"));
        }
      };
      CHECK(bits_of(train_on_gpu(3, text, options, {.delays = delays})) == bits_of(base));
      train(3, text, saving(folder / "cpu", 7, 8));
      CHECK(states_in(folder / "gpu/step_00000007") == states_in(folder / "cpu/step_00000007"));
    }
  }
}

}  // namespace zeroth::testing
