// SPDX-License-Identifier: Apache-2.0
/// A generator that learns points of a circle from a critic: two modules with a Trainer each, both of which a stage
/// file configures. A pass of one Trainer uses the other's module frozen.
///
///   torch_gan configs/zero3.json
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include <zeroth/adapters/torch.hpp>
#include <zeroth/zeroth.hpp>

namespace {

namespace nn = torch::nn;
namespace zt = zeroth::torch_adapter;

struct LayerImpl : nn::Module {
  nn::Linear linear{nullptr};
  LayerImpl(std::int64_t in, std::int64_t out) : linear{register_module("linear", nn::Linear{in, out})} {}
  torch::Tensor forward(torch::Tensor const& x) { return torch::leaky_relu(linear(x), 0.2); }
};
ZEROTH_TORCH_UNIT(Layer);

/// Layers of 64 channels, and a last layer without a nonlinearity.
struct NetImpl : nn::Module {
  Layer first, second;
  nn::Linear head;
  NetImpl(std::int64_t in, std::int64_t out)
      : first{register_module("first", Layer{in, 64})},
        second{register_module("second", Layer{64, 64})},
        head{register_module("head", nn::Linear{64, out})} {}
  torch::Tensor forward(torch::Tensor const& x) { return head(second(first(x))); }
};
TORCH_MODULE(Net);

constexpr std::int64_t latent = 4;
constexpr int steps = 900;

/// Random numbers that depend on the sample, not on its rank.
torch::Tensor uniform(std::int64_t first, std::int64_t rows, std::int64_t columns) {
  auto const places = torch::arange(first * columns, (first + rows) * columns, torch::kDouble) * 12.9898 + columns;
  return (torch::sin(places) * 43758.5453).frac().abs().to(torch::kFloat).view({rows, columns});
}
torch::Tensor circle(std::int64_t first, std::int64_t rows) {
  auto const angle = uniform(first, rows, 1) * 6.2831853;
  return torch::cat({torch::cos(angle), torch::sin(angle)}, 1);
}
torch::Tensor noise(std::int64_t first, std::int64_t rows) { return uniform(first, rows, latent) * 2 - 1; }

void train(zeroth::Job& job, zeroth::Config const& config) {
  auto critic_net = zt::seeded(1, [] { return Net{2, 1}; });
  auto generator_net = zt::seeded(2, [] { return Net{latent, 2}; });
  zt::Trainer critic{job, config, *critic_net}, generator{job, config, *generator_net};

  for (int step = 1; step <= steps; ++step) {
    for (auto micro : critic.micro_steps()) {
      micro.use_frozen(generator);  // gives no gradients: no detach() is needed
      auto const first = micro.first_sample(), rows = critic.micro_batch();
      auto const real = critic_net(circle(first, rows)), fake = critic_net(generator_net(noise(first, rows)));
      micro.backward(nn::functional::softplus(-real).mean() + nn::functional::softplus(fake).mean());
    }
    auto const of_critic = critic.step();

    for (auto micro : generator.micro_steps()) {
      micro.use_frozen(critic);  // passes gradients on to the generator, and takes none
      auto const fake = critic_net(generator_net(noise(micro.first_sample(), generator.micro_batch())));
      micro.backward(nn::functional::softplus(-fake).mean());
    }
    auto const of_generator = generator.step();

    if (job.rank() == 0 && of_critic && of_generator && step % 300 == 0) {
      std::printf("step %d  critic %.4f  generator %.4f\n", step, static_cast<double>(of_critic->loss),
                  static_cast<double>(of_generator->loss));
    }
  }
  critic.finish();
  generator.finish();

  auto evaluation = generator.evaluation(4);
  for (auto pass : evaluation) {
    auto const points = generator_net(noise(pass.first_sample(), generator.micro_batch()));
    pass.report_loss((points.norm(2, 1) - 1).abs().mean());
  }
  if (job.rank() == 0) {
    std::printf("generated points are %.3f from the circle\n", static_cast<double>(evaluation.mean_loss()));
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  std::string const file = argument_count > 1 ? arguments[1] : "configs/zero3.json";
  return zt::launch({.thread_ranks = 2}, [&](zeroth::Job& job) { train(job, zeroth::Config::from_file(file)); });
}
