// SPDX-License-Identifier: Apache-2.0
/// Runs an engine of one rank with given gradients, for scripts/compare_deepspeed.py. Each line of the input is a JSON
/// object, and gives one line of output:
///
///   {"config": STAGE FILE, "world": 4}
///   {"config": STAGE FILE, "start": [...], "gradients": [[...], ...]}
///
/// The first prints the batch sizes, and the second the rate and the loss scale of every step, and the weights at the
/// end. A gradient of null stands for one that is not finite. Prints {"refused": TEXT} if the file is rejected, and
/// {"ended": TEXT} with the steps so far if training cannot continue.
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/zeroth.hpp"

namespace {

using Json = nlohmann::json;

void note(std::optional<zeroth::StepReport> const& report, Json& said) {
  if (report) {
    said["rates"].push_back(report->learning_rate);
    said["scales"].push_back(report->loss_scale);
    said["skipped"].push_back(report->skipped);
  }
}

Json train(zeroth::Job& job, Json const& asked, zeroth::Config const& config) {
  auto const start = asked["start"].get<std::vector<float>>();
  zeroth::Model model;
  auto const unit = model.unit("only");
  zeroth::AnyParam const weight =
      model.param(unit, "weight", {static_cast<std::int64_t>(start.size())}, zeroth::Constant{0});
  zeroth::AnyEngine engine{job, model, config};
  engine.write(weight, start);
  Json said{{"rates", Json::array()}, {"scales", Json::array()}, {"skipped", Json::array()}};
  try {
    for (auto const& gradient : asked["gradients"]) {
      for (auto micro : engine.micro_steps()) {
        { auto const parameters = micro.forward(unit); }
        float const seed = micro.report_loss(0);
        auto const parameters = micro.backward(unit);
        auto memory = parameters.grad(weight);
        std::span const values{static_cast<float*>(std::move(memory).accumulator()), start.size()};
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] += gradient.is_null() ? std::numeric_limits<float>::infinity() : seed * gradient[i].get<float>();
        }
      }
      note(engine.step(), said);
    }
    note(engine.finish(), said);
  } catch (zeroth::Error const& error) {
    said["ended"] = error.what();
    return said;
  }
  std::vector<float> weights(start.size());
  engine.read(weight, weights);
  said["weights"] = weights;
  return said;
}

Json answer(zeroth::Job& job, Json const& asked) {
  try {
    auto const config = zeroth::Config::from_json(asked["config"].dump());
    if (asked.contains("start")) {
      return train(job, asked, config);
    }
    auto const batch = config.settings(asked["world"].get<int>(), 1).batch;
    return {{"train", batch.train}, {"micro", batch.micro}, {"accumulation", batch.accumulation}};
  } catch (zeroth::ConfigError const& error) {
    return {{"refused", error.what()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    bool answered = false;
    int const status = zeroth::launch({.thread_ranks = 1}, [&](zeroth::Job& job) {  // per line: an error ends it
      std::cout << answer(job, Json::parse(line)).dump() << '\n';
      answered = true;
    });
    if (!answered) {
      return status;
    }
  }
}
