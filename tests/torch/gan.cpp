// SPDX-License-Identifier: Apache-2.0
#include "gan.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/job.hpp"

namespace zeroth::testing {
namespace {

namespace nn = torch::nn;
using torch_adapter::Trainer;

constexpr std::int64_t latent = 6, hidden = 20, pixels = 9;

struct DenseImpl : nn::Module {
  nn::Linear linear{nullptr};
  bool drops;
  DenseImpl(std::int64_t in, std::int64_t out, bool dropout = false)
      : linear{register_module("linear", nn::Linear{in, out})}, drops{dropout} {}
  at::Tensor forward(at::Tensor const& x) {
    auto const y = at::tanh(linear(x));
    return drops ? at::dropout(y, 0.3, is_training()) : y;
  }
};
ZEROTH_TORCH_UNIT(Dense);

struct GeneratorImpl : nn::Module {
  Dense first{register_module("first", Dense{latent, hidden})},
      second{register_module("second", Dense{hidden, hidden})};
  nn::Linear head{register_module("head", nn::Linear{hidden, pixels})};  // the root's
  at::Tensor forward(at::Tensor const& z) { return head(second(first(z))); }
};
TORCH_MODULE(Generator);

struct CriticImpl : nn::Module {
  Dense first{nullptr}, second{nullptr}, third{nullptr};
  nn::BatchNorm1d norm{register_module("norm", nn::BatchNorm1d{nn::BatchNorm1dOptions{hidden}.affine(false)})};
  at::Tensor scale{register_parameter("scale", at::ones({hidden}))};
  explicit CriticImpl(bool drops) {
    first = register_module("first", Dense{pixels, hidden, drops});
    second = register_module("second", Dense{hidden, hidden, drops});
    third = register_module("third", Dense{hidden, hidden, drops});
  }
  at::Tensor forward(at::Tensor const& x) {
    auto y = norm(first(x));
    y = third(second(y * first->linear->bias.exp().sum() / hidden));  // reads a unit again, which is not the next
    return (y * scale).sum(1);
  }
};
TORCH_MODULE(Critic);

at::Tensor samples_of(std::int64_t first, std::int64_t rows, std::int64_t columns, double step) {
  return at::sin(at::arange(first, first + rows).unsqueeze(1) * step + at::arange(columns) * 1.3 + 0.2);
}
at::Tensor real(std::int64_t first, std::int64_t count) { return samples_of(first, count, pixels, 0.9) * 0.7 + 0.1; }
at::Tensor critic_loss(Critic& critic, at::Tensor const& samples, at::Tensor const& fake) {
  return nn::functional::softplus(-critic(samples)).mean() + nn::functional::softplus(critic(fake)).mean();
}
at::Tensor generator_loss(Critic& critic, at::Tensor const& fake) {
  return nn::functional::softplus(-critic(fake)).mean();
}

void see(Trained& trained, std::optional<StepReport> const& report) {
  if (report) {
    trained.losses.push_back(report->loss);
    trained.norms.push_back(report->grad_norm);
  }
}
void take(std::vector<float>& to, at::Tensor const& tensor) {
  auto const row = tensor.detach().to(at::kFloat).contiguous();
  to.insert(to.end(), row.data_ptr<float>(), row.data_ptr<float>() + row.numel());
}

}  // namespace

Trained train_gan(Job& job, Config const& of_critic, Config const& of_generator, GanRun const& run) {
  at::set_num_threads(1);
  auto critic_net = torch_adapter::seeded(21, [&] { return Critic{run.drops}; });
  auto generator_net = torch_adapter::seeded(22, [] { return Generator{}; });
  torch_adapter::TrainerOptions options;
  if (run.recomputes) {
    options.recompute = {"*"};
  }
  Trainer critic{job, of_critic, *critic_net, options}, generator{job, of_generator, *generator_net};
  auto const use = [](auto const& f, Trainer& trainer) {
    if (f) {
      f(trainer);
    }
  };
  Trained trained;
  for (int step = 0; step < run.steps; ++step) {
    for (auto micro : critic.micro_steps()) {
      micro.use_frozen(generator);
      auto const first = micro.first_sample(), count = critic.micro_batch();
      micro.backward(critic_loss(critic_net, real(first, count), generator_net(samples_of(first, count, latent, 0.4))));
    }
    critic.step();
    see(trained, critic.finish());
    use(run.before_generator, critic);
    for (auto micro : generator.micro_steps()) {
      micro.use_frozen(critic);
      auto const first = micro.first_sample(), count = generator.micro_batch();
      micro.backward(generator_loss(critic_net, generator_net(samples_of(first, count, latent, 0.4))));
    }
    generator.step();
    see(trained, generator.finish());
    use(run.after_generator, critic);
  }
  critic_net->eval();
  auto evaluation = generator.evaluation(2);
  for (auto pass : evaluation) {
    pass.use_frozen(critic);
    auto const fake = generator_net(samples_of(pass.first_sample(), generator.micro_batch(), latent, 0.4));
    pass.report_loss(generator_loss(critic_net, fake));
  }
  trained.evaluation = evaluation.mean_loss();
  for (auto const& item : critic_net->named_parameters()) {
    take(trained.weights, critic.read(item.key()));
  }
  for (auto const& item : generator_net->named_parameters()) {
    take(trained.weights, generator.read(item.key()));
  }
  for (auto const& buffer : critic_net->buffers()) {
    take(trained.buffers, buffer);
  }
  for (auto* const trainer : {&critic, &generator}) {
    trained.planned += trainer->engine().planned().total();
    trained.peak += trainer->engine().peak().total();
  }
  return trained;
}

Trained train_gan_on_threads(int world, Config const& of_critic, Config const& of_generator, GanRun const& run) {
  std::vector<Trained> results(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    torch_adapter::detail::without_backtrace(
        [&] { results[static_cast<std::size_t>(job.rank())] = train_gan(job, of_critic, of_generator, run); });
  });
  if (auto const messages = messages_of(outcome); !messages.empty()) {
    throw std::runtime_error{messages};
  }
  for (auto const& result : results) {
    if (bits_of(result) != bits_of(results.front()) || result.planned != result.peak) {
      throw std::runtime_error{"ranks saw different numbers, or took more memory than was planned"};
    }
  }
  return results.front();
}

Trained train_gan_plainly(std::int64_t batch, int steps, MakeOptimizer const& make) {
  at::set_num_threads(1);
  auto critic = torch_adapter::seeded(21, [] { return Critic{false}; });
  auto generator = torch_adapter::seeded(22, [] { return Generator{}; });
  auto const of_critic = make(critic->parameters()), of_generator = make(generator->parameters());
  Trained trained;
  auto const step_of = [&](torch::optim::Optimizer& optimizer, at::Tensor const& loss) {
    optimizer.zero_grad();
    loss.backward();
    trained.losses.push_back(loss.item<float>());
    double squares = 0;
    for (auto const& parameter : optimizer.parameters()) {
      squares += parameter.grad().to(at::kDouble).square().sum().item<double>();
    }
    trained.norms.push_back(static_cast<float>(std::sqrt(squares)));
    optimizer.step();
  };
  for (int step = 0; step < steps; ++step) {
    auto const z = samples_of(step * batch, batch, latent, 0.4);
    step_of(*of_critic, critic_loss(critic, real(step * batch, batch), generator(z).detach()));
    step_of(*of_generator, generator_loss(critic, generator(z)));
  }
  for (auto const& parameter : critic->parameters()) {
    take(trained.weights, parameter);
  }
  for (auto const& parameter : generator->parameters()) {
    take(trained.weights, parameter);
  }
  for (auto const& buffer : critic->buffers()) {
    take(trained.buffers, buffer);
  }
  return trained;
}

}  // namespace zeroth::testing
