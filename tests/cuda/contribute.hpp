// SPDX-License-Identifier: Apache-2.0
/// Steps whose math runs on the engine's stream. The host never waits for it.
#pragma once
#include <barrier>
#include <optional>
#include <stdexcept>

#include "cuda/work.hpp"
#include "engine/small_model.hpp"
#include "zeroth/adapters/cuda.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/fake_cuda.hpp"
#endif

namespace zeroth::testing {

#ifndef ZEROTH_ON_GPU
template <class T, class G>
cudaError_t enqueue(cudaStream_t stream, Contribution<T, G> const& work) {
  return fake_cuda::enqueue(stream, [work] {
    for (std::int64_t i = 0; i < work.count; ++i) {
      work.at(i);
    }
  });
}
#endif

/// Like contribute() of small_model.hpp, as a kernel.
template <Element T, GradientOf<T> G>
void enqueue_contribution(Backward<T, G> const& p, Param<1> const& param, std::int64_t sample, float seed,
                          cudaStream_t stream) {
  auto const value = p[param];
  auto const grad = p.grad(param);
  auto const error =
      enqueue(stream, Contribution<T, G>{value.data(), grad.data(), value.count(), grad.beta(), seed, sample});
  if (error != cudaSuccess) {
    throw std::runtime_error{cudaGetErrorName(error)};
  }
}

/// Like micro_step() of small_model.hpp.
template <Element T, GradientOf<T> G>
void micro_step_on_gpu(MicroStep<T, G>& micro, SmallModel const& small, cudaStream_t stream) {
  forward(micro, small);
  float const seed = micro.report_loss(loss_of(micro.first_sample()));
  for (auto u = small.units.size(); u-- > 0;) {
    auto const p = micro.backward(small.units[u]);
    enqueue_contribution(p, small.weights[u], micro.first_sample(), seed, stream);
  }
}

template <Element T, GradientOf<T> G>
void micro_steps_on_gpu(Engine<T, G>& engine, SmallModel const& small) {
  for (auto micro : engine.micro_steps()) {
    micro_step_on_gpu(micro, small, cuda_stream(engine));
  }
}

template <Element T, GradientOf<T> G>
std::optional<StepReport> step_on_gpu(Engine<T, G>& engine, SmallModel const& small) {
  micro_steps_on_gpu(engine, small);
  return engine.step();
}

/// One rank's first eight steps. All ranks are idle while rank 0 calls `begin`, before the fourth step, and `end`,
/// after the eighth; it calls `each_step` after each of these five.
template <class Begin, class EachStep, class End>
void eight_steps_on_gpu(Job& job, Config const& config, std::barrier<>& together, Begin const& begin,
                        EachStep const& each_step, End const& end) {
  auto const on_rank_0 = [&](auto const& action) {
    if (job.rank() == 0) {
      action();
    }
  };
  auto const alone = [&](auto const& action) {
    together.arrive_and_wait();
    on_rank_0(action);
    together.arrive_and_wait();
  };
  with_precision(config, [&]<class T, class G>(Precision<T, G>) {
    SmallModel const small;
    Engine<T, G> engine{job, small.model, config};
    for (int step = 1; step <= 3; ++step) {
      static_cast<void>(step_on_gpu(engine, small));
    }
    alone(begin);
    for (int step = 4; step <= 8; ++step) {
      static_cast<void>(step_on_gpu(engine, small));
      on_rank_0(each_step);
    }
    alone(end);
    engine.finish();
  });
}

}  // namespace zeroth::testing
