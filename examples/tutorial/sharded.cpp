// SPDX-License-Identifier: Apache-2.0
/// The second program of docs/tutorial.md: the same training, with states that Zeroth keeps.
///   tutorial_sharded STAGE_FILE [THREADS]
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <zeroth/adapters/eigen.hpp>
#include <zeroth/zeroth.hpp>

#include "problem.hpp"

void print(zeroth::Job const& job, std::optional<zeroth::StepReport> const& report) {
  if (job.rank() == 0 && report && report->step % 50 == 0) {
    std::printf("step %ld  loss %.5f\n", report->step, static_cast<double>(report->loss));
  }
}

void train(zeroth::Job& job, zeroth::Config const& config) {
  zeroth::Model model;
  auto const unit1 = model.unit("layer 1");
  auto const weight1 = model.param(unit1, "weight1", {width, hidden}, zeroth::PerElement{start});
  auto const bias1 = model.param(unit1, "bias1", {hidden}, zeroth::Constant{0});
  auto const unit2 = model.unit("layer 2");
  auto const weight2 = model.param(unit2, "weight2", {hidden, width}, zeroth::PerElement{start});
  auto const bias2 = model.param(unit2, "bias2", {width}, zeroth::Constant{0});

  zeroth::Engine<float> engine{job, model, config};
  if (job.rank() == 0) {
    auto const held = engine.planned();
    std::printf("each of %d ranks: parameters %ld, gradients %ld, optimizer %ld bytes\n", job.world(), held.parameters,
                held.gradients, held.optimizer);
  }

  for (int step = 1; step <= steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      Matrix const x = samples(micro.first_sample(), engine.micro_batch());
      Matrix const target = x.rowwise().reverse();

      Matrix h, d;
      {
        auto const p = micro.forward(unit1);
        h = ((x * as_eigen(p[weight1])).rowwise() + as_eigen(p[bias1])).array().tanh();
      }
      {
        auto const p = micro.forward(unit2);
        d = ((h * as_eigen(p[weight2])).rowwise() + as_eigen(p[bias2])) - target;
      }
      float const seed = micro.report_loss(d.array().square().mean());

      d *= 2 * seed / static_cast<float>(d.size());
      {
        auto const p = micro.backward(unit2);
        as_eigen(p.grad(weight2)) += h.transpose() * d;
        as_eigen(p.grad(bias2)) += d.colwise().sum();
        d = (d * as_eigen(p[weight2]).transpose()).array() * (1 - h.array().square());
      }
      {
        auto const p = micro.backward(unit1);
        as_eigen(p.grad(weight1)) += x.transpose() * d;
        as_eigen(p.grad(bias1)) += d.colwise().sum();
      }
    }
    print(job, engine.step());
  }
  print(job, engine.finish());
}

int main(int argument_count, char** arguments) {
  if (argument_count < 2) {
    std::fprintf(stderr, "usage: %s STAGE_FILE [THREADS]\n", arguments[0]);
    return 2;
  }
  int const threads = argument_count > 2 ? std::atoi(arguments[2]) : 1;
  return zeroth::launch({.thread_ranks = threads},
                        [&](zeroth::Job& job) { train(job, zeroth::Config::from_file(arguments[1])); });
}
