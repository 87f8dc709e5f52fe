// SPDX-License-Identifier: Apache-2.0
/// A training loop of your own with Zeroth in it: a small network on Eigen learns to mirror its input.
///   wrap_a_model configs/zero3.json                   4 ranks as threads
///   mpirun -n 4 wrap_a_model configs/zero3.json       4 ranks as processes
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>
#include <zeroth/adapters/eigen.hpp>
#include <zeroth/zeroth.hpp>

using Matrix = zeroth::Matrix<float>;

struct Layer {
  zeroth::Unit unit;
  zeroth::Param<2> weight;
  zeroth::Param<1> bias;
};

/// Stands for your data: rows [first, first + count) of a stream that is the same however many ranks share it.
Matrix samples(std::int64_t first, std::int64_t count) {
  Matrix rows(count, 64);
  for (auto row : rows.rowwise()) {
    std::mt19937 random(static_cast<unsigned>(first++));
    std::uniform_real_distribution<float> value{-1, 1};
    for (float& x : row) {
      x = value(random);
    }
  }
  return rows;
}

/// Your logging.
void print(zeroth::Job const& job, std::optional<zeroth::StepReport> const& report) {
  if (job.rank() == 0 && report && report->step % 50 == 0) {
    std::printf("step %ld  loss %.6f\n", report->step, static_cast<double>(report->loss));
  }
}

// ---- the README quotes from here ----
template <class T, class G>  // types of parameters and gradients, which the file selects
void train(zeroth::Job& job, zeroth::Config const& config, zeroth::Precision<T, G>) {
  zeroth::Model model;
  std::vector<Layer> layers;
  for (std::string const name : {"first", "second", "third"}) {
    auto const unit = model.unit(name);  // what is gathered and reduced together
    layers.push_back({unit, model.param(unit, name + ".weight", {64, 64}, zeroth::Normal{0.125F}),
                      model.param(unit, name + ".bias", {64}, zeroth::Constant{0})});
  }
  zeroth::Engine<T, G> engine{job, model, config};

  for (int step = 0; step < 500; ++step) {
    for (auto micro : engine.micro_steps()) {
      std::vector<Matrix> h{samples(micro.first_sample(), engine.micro_batch())};
      Matrix const target = h[0].rowwise().reverse();
      for (Layer const& layer : layers) {
        auto const p = micro.forward(layer.unit);  // its full parameters, until the scope ends
        h.push_back(((h.back() * widen(p[layer.weight])).rowwise() + widen(p[layer.bias])).array().tanh());
      }
      Matrix d = h.back() - target;
      float const seed = micro.report_loss(d.array().square().mean());  // carries loss scale and weight
      d *= 2 * seed / static_cast<float>(d.size());
      for (auto l = layers.size(); l-- > 0;) {
        auto const p = micro.backward(layers[l].unit);  // and its gradients, reduced after the scope ends
        d.array() *= 1 - h[l + 1].array().square();
        as_eigen(p.grad(layers[l].weight)) += h[l].transpose() * d;
        as_eigen(p.grad(layers[l].bias)) += d.colwise().sum();
        d *= widen(p[layers[l].weight]).transpose();
      }
    }
    print(job, engine.step());  // the previous step's report, so that no device idles
  }
  print(job, engine.finish());
}

int main(int argument_count, char** arguments) {
  std::string const file = argument_count > 1 ? arguments[1] : "configs/zero3.json";  // selects the stage
  return zeroth::launch({.thread_ranks = 4}, [&](zeroth::Job& job) {  // 4 threads; under mpirun, one of its ranks
    auto const config = zeroth::Config::from_file(file);
    with_precision(config, [&](auto precision) { train(job, config, precision); });
  });
}
// ---- to here ----
