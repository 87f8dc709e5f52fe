// SPDX-License-Identifier: Apache-2.0
#include "train.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "support/job.hpp"

namespace zeroth::testing {
namespace {

std::vector<float> flat(at::Tensor const& tensor) {
  auto const row = tensor.detach().to(at::kFloat).contiguous();
  return {row.data_ptr<float>(), row.data_ptr<float>() + row.numel()};
}
void append(std::vector<float>& to, at::Tensor const& tensor) {
  auto const values = flat(tensor);
  to.insert(to.end(), values.begin(), values.end());
}

/// Each tensor once, under its first name.
std::vector<std::pair<std::string, at::Tensor>> parameters_of(torch::nn::Module const& module) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (auto const& item : module.named_parameters()) {
    if (std::ranges::none_of(all, [&](auto const& other) { return other.second.is_same(item.value()); })) {
      all.emplace_back(item.key(), item.value());
    }
  }
  return all;
}

}  // namespace

std::vector<std::uint32_t> bits_of(Trained const& trained) {
  std::vector<std::uint32_t> bits;
  for (auto const* const values : {&trained.losses, &trained.norms, &trained.weights}) {
    for (float const value : *values) {
      bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
  }
  bits.push_back(std::bit_cast<std::uint32_t>(trained.evaluation));
  return bits;
}

Config File::config() const {
  auto const with = [](std::string const& text) { return text.empty() ? text : ", " + text; };
  auto const adamw =
      R"("type": "AdamW", "params": {"lr": )" + std::to_string(learning_rate) + R"(, "weight_decay": 0.1})";
  return Config::from_json(R"({"train_micro_batch_size_per_gpu": )" + std::to_string(micro) +
                           R"(, "gradient_accumulation_steps": )" + std::to_string(accumulation) +
                           R"(, "optimizer": {)" + optimizer.value_or(adamw) + R"(}, "zero_optimization": {"stage": )" +
                           std::to_string(stage) +
                           R"(, "reduce_bucket_size": 3000, "stage3_prefetch_bucket_size": 20000)" + with(zero) +
                           R"(}, "zeroth": {"timeout_ms": 120000, "check": true, "poison": true, "gradient_slots": )" +
                           std::to_string(slots) + with(zeroth) + "}" + with(more) + "}");
}

Trained train(Job& job, Config const& config, MakeProgram const& make, Run const& run) {
  at::set_num_threads(1);
  auto const program = make(job);
  torch_adapter::Trainer trainer{job, config, *program.module, program.options};
  Trained trained;
  auto const see = [&](std::optional<StepReport> const& report) {
    if (report) {
      trained.losses.push_back(report->loss);
      trained.norms.push_back(report->grad_norm);
    }
  };
  if (run.begin) {
    run.begin(trainer);
  }
  for (int step = 1; step <= run.steps; ++step) {
    for (auto micro : trainer.micro_steps()) {
      auto const first = micro.first_sample();
      if (program.skipped) {
        micro.skip(program.skipped(first, trainer.micro_batch()));
      }
      micro.backward(program.loss(first, trainer.micro_batch()));
    }
    see(trainer.step());
    if (run.after_step) {
      see(trainer.finish());
      run.after_step(trainer, step);
    }
  }
  see(trainer.finish());
  if (run.evaluates) {
    program.module->eval();
    auto evaluation = trainer.evaluation(2);
    for (auto pass : evaluation) {
      pass.report_loss(program.loss(pass.first_sample(), trainer.micro_batch()));
    }
    trained.evaluation = evaluation.mean_loss();
  }
  for (auto const& [name, tensor] : parameters_of(*program.module)) {
    append(trained.weights, trainer.read(program.options.name ? program.options.name(name) : name));
  }
  for (auto const& buffer : program.module->buffers()) {
    append(trained.buffers, buffer);
  }
  trained.planned = trainer.engine().planned().total();
  trained.peak = trainer.engine().peak().total();
  return trained;
}

Trained train_on_threads(int world, Config const& config, MakeProgram const& make, Run const& run) {
  std::vector<Trained> results(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    torch_adapter::detail::without_backtrace(
        [&] { results[static_cast<std::size_t>(job.rank())] = train(job, config, make, run); });
  });
  if (auto const messages = messages_of(outcome); !messages.empty()) {
    throw std::runtime_error{messages};
  }
  for (auto const& result : results) {
    if (bits_of(result) != bits_of(results.front())) {
      throw std::runtime_error{"ranks saw different losses, norms, weights or evaluations"};
    }
    if (result.planned != result.peak) {
      throw std::runtime_error{std::to_string(result.planned) + " bytes were planned, and the peak was " +
                               std::to_string(result.peak)};
    }
  }
  return results.front();
}

Trained train_plainly(MakeProgram const& make, std::int64_t batch, int steps, double learning_rate,
                      std::optional<double> clip) {
  Trained trained;
  auto const outcome = run_job(1, [&](Job& job) {
    at::set_num_threads(1);
    auto const program = make(job);
    std::vector<at::Tensor> tensors;
    for (auto const& [name, tensor] : parameters_of(*program.module)) {
      if (tensor.requires_grad()) {
        tensors.push_back(tensor);
      }
    }
    torch::optim::AdamW optimizer{tensors, torch::optim::AdamWOptions{learning_rate}.weight_decay(0.1)};
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      auto const loss = program.loss(step * batch, batch);
      loss.backward();
      double squares = 0;
      for (auto& tensor : tensors) {
        if (!tensor.grad().defined()) {  // libtorch's optimizers leave such a parameter alone
          tensor.mutable_grad() = at::zeros_like(tensor);
        }
        squares += tensor.grad().to(at::kDouble).square().sum().item<double>();
      }
      trained.losses.push_back(loss.item<float>());
      trained.norms.push_back(static_cast<float>(std::sqrt(squares)));
      if (clip) {
        torch::nn::utils::clip_grad_norm_(tensors, *clip);
      }
      optimizer.step();
    }
    {
      at::NoGradGuard const no_grad;
      program.module->eval();
      auto const first = program.loss(0, batch).item<float>(), second = program.loss(batch, batch).item<float>();
      trained.evaluation = (first + second) / 2;
    }
    for (auto const& tensor : tensors) {
      append(trained.weights, tensor);
    }
  });
  if (auto const messages = messages_of(outcome); !messages.empty()) {
    throw std::runtime_error{messages};
  }
  return trained;
}

}  // namespace zeroth::testing
