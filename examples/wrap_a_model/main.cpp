/// A training loop of your own with Zeroth in it: a small network on Eigen learns to mirror its input.
///   wrap_a_model configs/zero3.json                   4 ranks as threads
///   mpirun -n 4 wrap_a_model configs/zero3.json       4 ranks as processes
#include <cstdint>
#include <cstdio>
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
  for (std::int64_t row = 0; row < count; ++row) {
    std::minstd_rand random(static_cast<unsigned>(first + row + 1));
    std::uniform_real_distribution<float> value{-1, 1};
    rows.row(row) = rows.row(row).unaryExpr([&](float) { return value(random); });
  }
  return rows;
}

// ---- the README quotes from here ----
int main(int argument_count, char** arguments) {
  std::string const file = argument_count > 1 ? arguments[1] : "configs/zero3.json";  // says which stage
  return zeroth::launch({.thread_ranks = 4}, [&](zeroth::Job& job) {  // 4 threads; under mpirun, one of its ranks
    zeroth::Model model;
    std::vector<Layer> layers;
    for (std::string const name : {"first", "second", "third"}) {
      auto const unit = model.unit(name);  // what is gathered and reduced together
      layers.push_back({unit, model.param(unit, name + ".weight", {64, 64}, zeroth::Normal{0.125F}),
                        model.param(unit, name + ".bias", {64}, zeroth::Constant{0})});
    }
    zeroth::Engine<float> engine{job, model, zeroth::Config::from_file(file)};

    for (int step = 0; step < 500; ++step) {
      for (auto micro : engine.micro_steps()) {
        std::vector<Matrix> h{samples(micro.first_sample(), engine.micro_batch())};
        Matrix const target = h[0].rowwise().reverse();
        for (Layer const& layer : layers) {
          auto const p = micro.forward(layer.unit);  // its parameters, whole, until the end of the scope
          h.push_back(((h.back() * as_eigen(p[layer.weight])).rowwise() + as_eigen(p[layer.bias])).array().tanh());
        }
        Matrix d = h.back() - target;
        float const seed = micro.report_loss(d.array().square().mean());  // carries loss scale and weight
        d *= 2 * seed / static_cast<float>(d.size());
        for (auto l = layers.size(); l-- > 0;) {
          auto const p = micro.backward(layers[l].unit);  // and its gradients, reduced after the end of the scope
          d.array() *= 1 - h[l + 1].array().square();
          as_eigen(p.grad(layers[l].weight)) += h[l].transpose() * d;
          as_eigen(p.grad(layers[l].bias)) += d.colwise().sum();
          d *= as_eigen(p[layers[l].weight]).transpose();
        }
      }
      auto const last = engine.step();  // the report of the step before: nobody waited for it
      if (last && last->step % 100 == 0 && job.rank() == 0) {
        std::printf("step %ld  loss %.6f\n", last->step, last->loss);
      }
    }
  });
}
// ---- to here ----
