// SPDX-License-Identifier: Apache-2.0
/// Engines on a GPU: with zeroth.poison, memory kept beyond its guard is NaN, and replicas are compared as on the CPU.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cuda_access.hpp"
#include "cuda/gpus.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

std::unique_ptr<device::Device> gpu(int /*rank*/) { return device::make_cuda_device(0); }

/// The number of NaNs among 300 values.
int nan_count(CudaAccess& access, float const* values) {
  auto const* const read = static_cast<float const*>(access.read(values, 300 * std::int64_t{sizeof(float)}));
  return static_cast<int>(std::count_if(read, read + 300, [](float value) { return std::isnan(value); }));
}

/// NaNs in a parameter and a gradient: in their guards, while a later one is open, and at the end.
std::vector<int> kept_nans(Job& job, int stage) {
  SmallModel const small;
  Engine<float> engine{job, small.model, small_config(stage, {.accumulation = 1, .zeroth = R"(, "poison": true)"})};
  CudaAccess access{engine.compute_stream()};
  std::vector<float const*> kept;
  std::vector<int> nans;
  auto const look = [&] {
    for (auto const* const values : kept) {
      nans.push_back(nan_count(access, values));
    }
  };
  for (auto micro : engine.micro_steps()) {
    for (std::size_t u = 0; u < 3; ++u) {
      auto const p = micro.forward(small.units[u]);
      if (u == 0) {
        kept.push_back(p[small.weights[0]].data());
      }
      look();
    }
    float const seed = micro.report_loss(1);
    for (std::size_t u = 3; u-- > 0;) {
      auto const p = micro.backward(small.units[u]);
      auto const grad = p.grad(small.weights[u]);
      std::fill_n(static_cast<float*>(access.edit(grad.data(), 300 * std::int64_t{sizeof(float)})), 300, seed);
      access.commit();
      if (u == 2) {
        kept = {grad.data()};
        look();
      }
    }
  }
  look();
  engine.step();
  engine.finish();
  return nans;
}

}  // namespace

TEST_CASE("on a GPU, memory that is used after its guard is NaN at every stage") {
  for (int stage = 0; stage <= 3; ++stage) {
    begin_on({});
    std::vector<std::vector<int>> nans(2);
    auto const outcome = run_job(
        2, [&](Job& job) { nans[static_cast<std::size_t>(job.rank())] = kept_nans(job, stage); }, {}, gpu);
    INFO("stage " << stage);
    CHECK(messages_of(outcome) == "");
    for (auto const& of_rank : nans) {
      CHECK(of_rank == std::vector<int>{0, 300, 300, 0, 300});
    }
    CHECK(left_on_gpus() == "");
  }
}

TEST_CASE("on a GPU, different initial parameters of ranks are reported") {
  for (int stage = 0; stage <= 2; ++stage) {
    begin_on({});
    auto const outcome = run_job(
        2,
        [&](Job& job) {
          Model model;
          auto const value = [rank = job.rank()](std::int64_t element) {
            return rank == 1 && element == 20 ? 1.0F : 2.0F;
          };
          static_cast<void>(model.param(model.unit("u"), "w", {300}, PerElement{value}));
          Engine<float> const engine{job, model, small_config(stage)};
        },
        {}, gpu);
    INFO("stage " << stage);
    for (auto const& error : outcome) {
      CHECK_THAT(message_of(error), Catch::Contains("rank 1's unit \"u\" differs from rank 0's after initialisation"));
    }
    CHECK(left_on_gpus() == "");
  }
}

}  // namespace zeroth::testing
