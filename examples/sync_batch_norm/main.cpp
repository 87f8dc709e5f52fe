// SPDX-License-Identifier: Apache-2.0
/// BatchNorm with recomputation and accumulation: running statistics must be committed once per step. Trains two layers
/// with a BatchNorm between them on 4 ranks, and returns 1 if recomputation changes a bit.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "sync_batch_norm.hpp"

using Matrix = zeroth::Matrix<float>;

namespace {

constexpr std::int64_t channels = 8, micro_steps = 2, steps = 20;

/// The naive way commits in every forward, as if it ran once per step.
enum class Commits : bool { in_step, in_forward };

Matrix samples(std::int64_t first, std::int64_t count) {
  Matrix rows(count, channels);
  for (auto row : rows.rowwise()) {
    std::mt19937 random(static_cast<unsigned>(first++));
    std::normal_distribution<float> value{0.5F, 2};
    for (float& x : row) {
      x = value(random);
    }
  }
  return rows;
}

/// Returns the running statistics and the weights of the first layer.
std::vector<double> train(zeroth::Job& job, std::string const& units, Commits commits) {
  zeroth::Model model{3};
  auto const first = model.unit("first");
  auto const last = model.unit("last");
  auto const w = model.param(first, "first.weight", {channels, channels}, zeroth::Normal{0.4F});
  auto const v = model.param(last, "last.weight", {channels, channels}, zeroth::Normal{0.4F});
  auto const config = zeroth::Config::from_json(
      R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 3},
          "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
          "zeroth": {"activation_checkpointing": {"units": )" +
      units + "}}}");
  zeroth::Engine<float> engine{job, model, config};
  zeroth::ActivationPolicy const policy{config, model};
  SyncBatchNorm norm{job, channels, micro_steps};
  for (int step = 0; step < steps; ++step) {
    std::int64_t index = 0;
    for (auto micro : engine.micro_steps()) {
      auto const x = samples(micro.first_sample(), engine.micro_batch());
      auto const normalised = [&](Matrix const& h) {
        Matrix normal = norm.forward(h, index);
        if (commits == Commits::in_forward) {
          norm.commit();
        }
        return normal;
      };
      Matrix h, normal, d;
      {
        auto const p = micro.forward(first);
        h = x * as_eigen(p[w]);
      }
      {
        auto const p = micro.forward(last);
        normal = normalised(h);
        d = normal * as_eigen(p[v]) - x;
      }
      float const seed = micro.report_loss(d.array().square().mean());
      d *= 2 * seed / static_cast<float>(d.size());
      {
        auto const p = micro.backward(last);
        if (policy.recomputes(last)) {  // only its input is kept
          normal = normalised(h);
        }
        as_eigen(p.grad(v)) += normal.transpose() * d;
        d = norm.backward(normal, d * as_eigen(p[v]).transpose());
      }
      auto const p = micro.backward(first);
      as_eigen(p.grad(w)) += x.transpose() * d;
      ++index;
    }
    if (commits == Commits::in_step) {
      norm.commit();
    }
    engine.step();
  }
  engine.finish();
  std::vector<double> result(norm.running.data(), norm.running.data() + norm.running.size());
  std::vector<float> weights(static_cast<std::size_t>(channels * channels));
  engine.read(w, weights);
  result.insert(result.end(), weights.begin(), weights.end());
  return result;
}

}  // namespace

int main() {
  bool sound = true;
  int const status = zeroth::launch({.thread_ranks = 4}, [&](zeroth::Job& job) {
    auto const kept = train(job, R"("none")", Commits::in_step);
    auto const recomputed = train(job, R"(["last"])", Commits::in_step);
    auto const naive = train(job, R"("none")", Commits::in_forward);
    auto const naive_recomputed = train(job, R"(["last"])", Commits::in_forward);
    if (job.rank() == 0) {
      sound = kept == recomputed && naive != naive_recomputed;
      std::printf("running mean of the first channel\ncommitted once per step:   kept %.6f  recomputed %.6f\n", kept[0],
                  recomputed[0]);
      std::printf("committed in each forward: kept %.6f  recomputed %.6f\n", naive[0], naive_recomputed[0]);
    }
  });
  return sound ? status : 1;
}
