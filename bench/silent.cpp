// SPDX-License-Identifier: Apache-2.0
/// A small network with a middle layer that may be used several times. All numbers come from formulas that are exact in
/// bf16. peers/silent.py trains the same in fp64 and with other systems.
///
///   bench_silent STAGE_FILE [--ranks N] [--steps N] [--uses N] [--uneven] [--save FOLDER]
/// Ranks are threads. Prints one JSON line: losses and norms of all steps, and the weights at the end.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>
#include <zeroth/adapters/eigen.hpp>
#include <zeroth/zeroth.hpp>

#include "command_line.hpp"

namespace {

using Matrix = zeroth::Matrix<float>;
constexpr std::int64_t width = 16;
constexpr std::int64_t tokens = 4;  // per sample

struct Options {
  std::string file;
  int ranks = 1, steps = 6, uses = 1;
  bool uneven = false;
  std::string save;
};

/// Odd multiples of 2^-7, from -63 to 63 of them.
float number(std::uint32_t stream, std::uint32_t index) {
  std::uint32_t const mixed = (stream * 1009U + index + 1U) * 2654435761U;
  return static_cast<float>(static_cast<int>((mixed >> 26U) * 2U) - 63) / 128.0F;
}

Matrix numbers(std::uint32_t stream, std::int64_t rows, std::int64_t columns) {
  Matrix result(rows, columns);
  for (std::int64_t i = 0; i < result.size(); ++i) {
    result.data()[i] = number(stream, static_cast<std::uint32_t>(i));
  }
  return result;
}

struct Sample {
  Matrix input, target;
  std::int64_t valid;  // rows that count
};

Sample sample(std::int64_t index, bool uneven) {
  auto const stream = static_cast<std::uint32_t>(100 + 2 * index);
  return {2 * numbers(stream, tokens, width), numbers(stream + 1, tokens, width),
          uneven ? 1 + (index * 5 + index / 4) % tokens : tokens};
}

struct Layer {
  zeroth::Unit unit;
  zeroth::Param<2> weight;
  zeroth::Param<1> bias;
};

struct Network {
  zeroth::Model model;
  std::vector<Layer> layers;
  std::vector<std::size_t> order;  // of a forward pass

  explicit Network(int uses) {
    for (std::string const name : {"first", "middle", "last"}) {
      auto const unit = model.unit(name, {.uses_per_micro_step = name == "middle" ? uses : 1});
      layers.push_back({unit,
                        model.param(unit, name + ".weight", {width, width}, zeroth::Constant{0}, {.matrix = true}),
                        model.param(unit, name + ".bias", {width}, zeroth::Constant{0})});
    }
    order.assign(static_cast<std::size_t>(uses), 1);
    order.insert(order.begin(), 0);
    order.push_back(2);
  }
};

template <class Micro>
void train(Micro& micro, Network const& network, bool uneven) {
  auto const [input, target, valid] = sample(micro.first_sample(), uneven);
  std::vector<Matrix> h{input};
  for (auto const at : network.order) {
    auto const& layer = network.layers[at];
    auto const p = micro.forward(layer.unit);
    Matrix const sum = (h.back() * widen(p[layer.weight])).rowwise() + widen(p[layer.bias]);
    h.push_back(at == 2 ? sum : Matrix{sum.array().tanh()});
  }
  Matrix d = h.back() - target;
  d.bottomRows(tokens - valid).setZero();
  auto const count = static_cast<float>(valid * width);
  float const seed = micro.report_loss(d.squaredNorm() / count, {.weight = static_cast<float>(valid) / tokens});
  d *= 2 * seed / count;
  for (auto use = network.order.size(); use-- > 0;) {
    auto const& layer = network.layers[network.order[use]];
    auto const p = micro.backward(layer.unit);
    if (use + 1 < network.order.size()) {
      d.array() *= 1 - h[use + 1].array().square();
    }
    as_eigen(p.grad(layer.weight)) += h[use].transpose() * d;
    as_eigen(p.grad(layer.bias)) += d.colwise().sum();
    d *= Matrix{widen(p[layer.weight])}.transpose();
  }
}

void note(std::optional<zeroth::StepReport> const& report, nlohmann::ordered_json& result) {
  if (report) {
    result["losses"].push_back(report->loss);
    result["grad_norms"].push_back(report->grad_norm);
  }
}

template <class T, class G>
void train(zeroth::Job& job, zeroth::Config const& config, Options const& options, zeroth::Precision<T, G>) {
  Network const network{options.uses};
  zeroth::Engine<T, G> engine{job, network.model, config};
  std::uint32_t stream = 0;
  for (auto const& layer : network.layers) {
    auto const weight = numbers(stream++, width, width), bias = numbers(stream++, 1, width);
    engine.write(layer.weight, {weight.data(), static_cast<std::size_t>(weight.size())});
    engine.write(layer.bias, {bias.data(), static_cast<std::size_t>(bias.size())});
  }
  if (!options.save.empty()) {
    engine.save(options.save);
  }
  nlohmann::ordered_json result;
  for (int step = 0; step < options.steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      train(micro, network, options.uneven);
    }
    note(engine.step(), result);
  }
  note(engine.finish(), result);
  for (auto const& layer : network.layers) {
    std::vector<float> weight(width * width), bias(width);
    engine.read(layer.weight, weight);
    engine.read(layer.bias, bias);
    result["weights"].push_back(weight);
    result["weights"].push_back(bias);
  }
  if (job.rank() == 0) {
    std::cout << result.dump() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A small network that peers/silent.py trains with other systems as well"};
  Options options;
  app.add_option("STAGE_FILE", options.file)->required()->check(CLI::ExistingFile);
  app.add_option("--ranks", options.ranks, "threads")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("--steps", options.steps)->capture_default_str()->check(zeroth::bench::count);
  app.add_option("--uses", options.uses, "of the middle layer")->capture_default_str()->check(zeroth::bench::count);
  app.add_flag("--uneven", options.uneven, "samples have 1 to 4 tokens that count, instead of 4");
  app.add_option("--save", options.save, "folder for a checkpoint before the first step");
  CLI11_PARSE(app, argc, argv);
  return zeroth::launch({.thread_ranks = options.ranks}, [&](zeroth::Job& job) {
    auto const config = zeroth::Config::from_file(options.file);
    using zeroth::Precision;
    zeroth::with_precision<Precision<float>, Precision<zeroth::bf16>, Precision<zeroth::bf16, float>>(
        config, [&](auto precision) { train(job, config, options, precision); });
  });
}
