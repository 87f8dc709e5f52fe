// SPDX-License-Identifier: Apache-2.0
/// A residual network that classifies digits, trained as a stage file says. The images are those of scikit-learn, as
/// text:
///
///   gzip -dc $(python3 -c 'import sklearn.datasets as d; print(d.__path__[0])')/data/digits.csv.gz > digits.csv
///   torch_vision digits.csv configs/zero3.json
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "digits.hpp"
#include "resnet.hpp"

namespace {

constexpr std::int64_t for_evaluation = 297;  // the last images
constexpr int steps = 200;

void print(zeroth::Job const& job, std::optional<zeroth::StepReport> const& report) {
  if (report && job.rank() == 0 && report->step % 50 == 0) {
    std::printf("step %lld  loss %.4f\n", static_cast<long long>(report->step), static_cast<double>(report->loss));
  }
}

void train(zeroth::Job& job, std::string const& data, std::string const& file) {
  auto const digits = torch_vision::Digits::read(data);
  zeroth::SampleOrder const order{digits.count() - for_evaluation};
  auto net = zeroth::torch_adapter::seeded(1, [&] { return torch_vision::ResNet{job, 16, 10}; });
  zeroth::torch_adapter::Trainer trainer{
      job, zeroth::Config::from_file(file), *net, {.units = zeroth::torch_adapter::units(*net, {"blocks.*"})}};

  for (int step = 0; step < steps; ++step) {
    for (auto micro : trainer.micro_steps()) {
      std::vector<std::int64_t> samples;
      for (std::int64_t i = 0; i < trainer.micro_batch(); ++i) {
        samples.push_back(order[micro.first_sample() + i]);
      }
      auto const rows = torch::tensor(samples);
      auto const logits = net(digits.images.index_select(0, rows));
      micro.backward(torch::nn::functional::cross_entropy(logits, digits.labels.index_select(0, rows)));
    }
    print(job, trainer.step());
  }
  print(job, trainer.finish());

  net->eval();
  auto const accuracy = trainer.engine().add_metric("accuracy");
  auto const share = for_evaluation / job.world();
  auto evaluation = trainer.evaluation(1);
  for (auto pass : evaluation) {
    auto const first = digits.count() - for_evaluation + job.rank() * share;
    auto const labels = digits.labels.narrow(0, first, share);
    auto const logits = net(digits.images.narrow(0, first, share));
    pass.report_loss(torch::nn::functional::cross_entropy(logits, labels));
    pass.report_metric(accuracy, logits.argmax(1).eq(labels).sum().item<double>(), static_cast<double>(share));
  }
  if (job.rank() == 0) {
    std::printf("accuracy %.3f of digits that were not trained on\n", evaluation.metrics()[accuracy]);
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 2 || argument_count > 3) {
    std::fprintf(stderr, "torch_vision DIGITS.CSV [STAGE FILE]\n");
    return 2;
  }
  std::string const file = argument_count > 2 ? arguments[2] : "configs/zero3.json";
  return zeroth::torch_adapter::launch({.thread_ranks = 4}, [&](zeroth::Job& job) { train(job, arguments[1], file); });
}
