// SPDX-License-Identifier: Apache-2.0
/// A chain of layers that trains bitwise the same without a mesh and in a pipeline.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/synthetic.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {

/// Layers of several sizes, with parameters made in another order than units; one is frozen, two are tied.
struct Chain {
  /// The distance between units that share a parameter.
  enum class Ties : bool {
    near,   ///< Neighbours.
    across  ///< As far apart as possible: a weight of three units, a bias of two, a frozen parameter of two.
  };
  struct Layer {
    Unit unit;
    std::int64_t in, out;
    std::optional<Param<2>> weight;
    std::optional<Param<1>> bias;
    bool trains_bias = true;
  };
  Model model{5};
  std::vector<Layer> layers;

  explicit Chain(Ties ties = Ties::near) { ties == Ties::near ? tie_near() : tie_across(); }
  static std::string name_of(Layer const& layer) { return "layer" + std::to_string(layer.unit.index()); }

 private:
  void tie_near() {
    add_layers({12, 20, 9, 16, 11, 12, 12});
    for (auto& layer : layers) {
      layer.trains_bias = layer.unit.index() != 1;
      add_bias(layer);
    }
    for (auto at = layers.rbegin(); at != layers.rend(); ++at) {
      if (at->unit.index() != 5) {
        add_weight(*at, 0.4F);
      }
    }
    auto const tied = model.unit("tied", {.input_per_sample = 12});  // has the weight of layer 5, and its own bias
    add_weight(layers.back(), 0.3F);
    model.tie(tied, *layers.back().weight);
    layers.push_back({tied, 12, 12, layers.back().weight, model.param(tied, "tied.b", {12}, Constant{0})});
  }
  void tie_across() {
    add_layers({12, 12, 12, 16, 11, 12, 12, 12});
    layers[1].trains_bias = layers[5].trains_bias = false;
    for (auto const index : {4U, 1U, 0U, 2U, 3U}) {
      add_bias(layers[index]);
    }
    for (auto const index : {3U, 1U, 0U, 2U, 4U}) {
      add_weight(layers[index], 0.4F);
    }
    share(5, layers[0].weight, layers[1].bias);
    share(6, layers[0].weight, layers[4].bias);
  }
  void add_layers(std::vector<std::int64_t> const& widths) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      auto const name = "layer" + std::to_string(i);
      layers.push_back({model.unit(name, {.input_per_sample = widths[i]}), widths[i], widths[i + 1], {}, {}});
    }
  }
  void add_bias(Layer& layer) {
    layer.bias = model.param(layer.unit, name_of(layer) + ".b", {layer.out}, Uniform{-0.1F, 0.1F},
                             {.trainable = layer.trains_bias});
  }
  void add_weight(Layer& layer, float deviation) {
    layer.weight =
        model.param(layer.unit, name_of(layer) + ".w", {layer.in, layer.out}, Normal{deviation}, {.matrix = true});
  }
  void share(std::size_t index, std::optional<Param<2>> const& weight, std::optional<Param<1>> const& bias) {
    auto& layer = layers[index];
    layer.weight = weight;
    layer.bias = bias;
    model.tie(layer.unit, *weight);
    model.tie(layer.unit, *bias);
  }
};

/// The rows of a batch, flattened.
using Rows = std::vector<float>;

template <class T>
float round_to(float value) {
  return to_float(from_float<T>(value));
}

/// The data that the layers of a stage keep of a micro-step.
struct Tape {
  std::vector<Rows> inputs;  ///< The input of each layer, and last the output of the last layer.
  std::vector<Rows> slopes;  ///< The gradient of each layer before its tanh.
  Rows target;
  float seed = 0;
};

template <class T>
Rows apply(Chain::Layer const& layer, Params<T> const& p, Rows const& x) {
  auto const rows = static_cast<std::int64_t>(x.size()) / layer.in;
  auto const w = p[*layer.weight];
  auto const b = p[*layer.bias];
  Rows y(static_cast<std::size_t>(rows * layer.out));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < layer.out; ++o) {
      float sum = to_float(b.data()[o]);
      for (std::int64_t i = 0; i < layer.in; ++i) {
        sum += x[static_cast<std::size_t>(r * layer.in + i)] * to_float(w.data()[i * layer.out + o]);
      }
      y[static_cast<std::size_t>(r * layer.out + o)] = round_to<T>(std::tanh(sum));
    }
  }
  return y;
}

/// Adds to a gradient.
template <class G, std::size_t D>
void add(Gradient<G, D> gradient, std::vector<float> const& more) {
  for (std::size_t i = 0; i < more.size(); ++i) {
    float const before = gradient.beta() == 0 ? 0 : to_float(gradient.data()[i]);
    gradient.data()[i] = from_float<G>(before + more[i]);
  }
}

/// The gradient before the layer's tanh.
inline Rows before_tanh(Rows const& y, Rows const& dy) {
  Rows d(dy.size());
  for (std::size_t i = 0; i < d.size(); ++i) {
    d[i] = dy[i] * (1 - y[i] * y[i]);
  }
  return d;
}

/// The gradient with respect to `x`.
template <class T>
Rows gradient_by_input(Chain::Layer const& layer, Params<T> const& p, Rows const& x, Rows const& d) {
  auto const rows = static_cast<std::int64_t>(x.size()) / layer.in;
  auto const w = p[*layer.weight];
  Rows dx(x.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < layer.out; ++o) {
      for (std::int64_t i = 0; i < layer.in; ++i) {
        dx[static_cast<std::size_t>(r * layer.in + i)] +=
            d[static_cast<std::size_t>(r * layer.out + o)] * to_float(w.data()[i * layer.out + o]);
      }
    }
  }
  for (float& each : dx) {
    each = round_to<T>(each);
  }
  return dx;
}

/// `guard` is a Backward or Weights guard.
template <class Guard>
void add_weight_gradients(Chain::Layer const& layer, Guard const& guard, Rows const& x, Rows const& d) {
  auto const rows = static_cast<std::int64_t>(x.size()) / layer.in;
  std::vector<float> dw(static_cast<std::size_t>(layer.in * layer.out)), db(static_cast<std::size_t>(layer.out));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < layer.out; ++o) {
      auto const slope = d[static_cast<std::size_t>(r * layer.out + o)];
      db[static_cast<std::size_t>(o)] += slope;
      for (std::int64_t i = 0; i < layer.in; ++i) {
        dw[static_cast<std::size_t>(i * layer.out + o)] += x[static_cast<std::size_t>(r * layer.in + i)] * slope;
      }
    }
  }
  add(guard.grad(*layer.weight), dw);
  if (layer.trains_bias) {
    add(guard.grad(*layer.bias), db);
  }
}

template <class T>
Rows batch_at(std::int64_t first, std::int64_t samples, std::int64_t width) {
  Rows rows;
  for (std::int64_t s = 0; s < samples; ++s) {
    std::mt19937 random{static_cast<unsigned>(first + s)};
    for (std::int64_t i = 0; i < width; ++i) {
      rows.push_back(round_to<T>(static_cast<float>(random() % 2001) / 1000 - 1));
    }
  }
  return rows;
}

inline float loss_of(Rows const& y, Rows const& target) {
  float sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += (y[i] - target[i]) * (y[i] - target[i]);
  }
  return sum / static_cast<float>(y.size());
}

template <class T>
Rows slope_of(Rows const& y, Rows const& target, float seed) {
  Rows slope(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    slope[i] = round_to<T>(2 * seed * (y[i] - target[i]) / static_cast<float>(y.size()));
  }
  return slope;
}

template <class T>
Rows rows_of(View<T, 2> const& view) {
  Rows rows;
  for (std::int64_t i = 0; i < view.count(); ++i) {
    rows.push_back(to_float(view.data()[i]));
  }
  return rows;
}

template <class T>
void put(Rows const& rows, View<T, 2> const& view) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    view.data()[i] = from_float<T>(rows[i]);
  }
}

struct ChainOptions {
  int steps = 4;
  int overflow_at_step = 0;              ///< The step in which the loss's gradient is infinite at the last place.
  std::function<void()> in_action = {};  ///< Called while an action is open, before its math.
  Chain::Ties ties = Chain::Ties::near;
};

/// The factor for the gradient of the last micro-step of a step.
inline float spoil(ChainOptions const& options, int step, bool last_place) {
  return step == options.overflow_at_step && last_place ? std::numeric_limits<float>::infinity() : 1.0F;
}

template <class T, class Work>
void run_forward(Work& work, Chain const& chain, Tape& tape, std::int64_t samples, float factor) {
  auto const batch = batch_at<T>(work.first_sample(), samples, 12);
  tape = {{work.first() ? batch : rows_of(work.input())}, std::vector<Rows>(work.units().size()), batch, 0};
  for (auto const unit : work.units()) {
    auto const p = work.forward(unit);
    tape.inputs.push_back(apply<T>(chain.layers[unit.index()], p, tape.inputs.back()));
  }
  if (work.last()) {
    tape.seed = work.report_loss(loss_of(tape.inputs.back(), tape.target)) * factor;
  } else {
    put(tape.inputs.back(), work.output());
  }
}

/// Runs backward, or its half for gradients of inputs.
template <class T, class Work>
void run_backward(Work& work, Chain const& chain, Tape& tape) {
  auto slope = work.last() ? slope_of<T>(tape.inputs.back(), tape.target, tape.seed) : rows_of(work.output_gradient());
  for (auto at = work.units().size(); at-- > 0;) {
    auto const unit = work.units()[at];
    auto const& layer = chain.layers[unit.index()];
    tape.slopes[at] = before_tanh(tape.inputs[at + 1], slope);
    if (work.phase() == Phase::backward) {
      auto const p = work.backward(unit);
      slope = gradient_by_input<T>(layer, p, tape.inputs[at], tape.slopes[at]);
      add_weight_gradients(layer, p, tape.inputs[at], tape.slopes[at]);
    } else {
      auto const p = work.inputs(unit);
      slope = gradient_by_input<T>(layer, p, tape.inputs[at], tape.slopes[at]);
    }
  }
  if (!work.first()) {
    put(slope, work.input_gradient());
  }
}

template <class Work>
void run_weights(Work& work, Chain const& chain, Tape const& tape) {
  for (auto at = work.units().size(); at-- > 0;) {
    auto const unit = work.units()[at];
    auto const p = work.weights(unit);
    add_weight_gradients(chain.layers[unit.index()], p, tape.inputs[at], tape.slopes[at]);
  }
}

/// Trains with schedule(), on a mesh of any number of stages.
template <class T, class G>
void run_actions(Engine<T, G>& engine, Chain const& chain, ChainOptions const& options, int step, bool last_place) {
  std::vector<Tape> tapes(static_cast<std::size_t>(engine.in_flight()));
  for (auto work : engine.schedule()) {
    auto& tape = tapes[static_cast<std::size_t>(work.slot())];
    if (options.in_action) {
      options.in_action();
    }
    switch (work.phase()) {
      case Phase::forward:
        run_forward<T>(work, chain, tape, engine.micro_batch(), spoil(options, step, last_place));
        break;
      case Phase::backward:
      case Phase::backward_inputs: run_backward<T>(work, chain, tape); break;
      case Phase::backward_weights: run_weights(work, chain, tape); break;
    }
  }
}

/// Trains with micro_steps().
template <class T, class G>
void run_micro_steps(Engine<T, G>& engine, Chain const& chain, ChainOptions const& options, int step, bool last_place) {
  for (auto micro : engine.micro_steps()) {
    auto const batch = batch_at<T>(micro.first_sample(), engine.micro_batch(), 12);
    std::vector<Rows> inputs{batch};
    for (auto const& layer : chain.layers) {
      auto const p = micro.forward(layer.unit);
      inputs.push_back(apply<T>(layer, p, inputs.back()));
    }
    float const seed = micro.report_loss(loss_of(inputs.back(), batch)) * spoil(options, step, last_place);
    auto slope = slope_of<T>(inputs.back(), batch, seed);
    for (auto i = chain.layers.size(); i-- > 0;) {
      auto const p = micro.backward(chain.layers[i].unit);
      auto const before = before_tanh(inputs[i + 1], slope);
      slope = gradient_by_input<T>(chain.layers[i], p, inputs[i], before);
      add_weight_gradients(chain.layers[i], p, inputs[i], before);
    }
  }
}

/// The values of all parameters, one after the other.
template <class T, class G>
std::vector<float> values_of(Engine<T, G>& engine, Model const& model) {
  std::vector<float> all;
  for (std::uint32_t i = 0; i < model.description().params.size(); ++i) {
    auto const param = model.param_at(i);
    std::int64_t count = 1;
    for (auto const extent : param.global_shape()) {
      count *= extent;
    }
    std::vector<float> values(static_cast<std::size_t>(count));
    engine.read(param, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Returns reports of all steps, and all parameters.
template <class T, class G>
Trained finish(Engine<T, G>& engine, Chain const& chain, std::vector<StepReport> reports) {
  Trained trained{std::move(reports), {}, {}, {}, {}};
  trained.reports.push_back(*engine.finish());
  trained.parameters = values_of(engine, chain.model);
  trained.planned = engine.planned();
  trained.peak = engine.peak();
  return trained;
}

/// Trains on a mesh or without one.
inline Trained train_chain(Job& job, Config const& config, ChainOptions const& options, bool on_mesh) {
  Trained trained;
  with_precision(config, [&]<class P>(P) {
    using T = typename P::Compute;
    using G = typename P::Gradient;
    Chain const chain{options.ties};
    std::optional<Mesh> mesh;
    if (on_mesh) {
      mesh.emplace(job, config);
    }
    auto const engine = on_mesh ? std::make_unique<Engine<T, G>>(*mesh, chain.model, config)
                                : std::make_unique<Engine<T, G>>(job, chain.model, config);
    bool const last_place = on_mesh ? mesh->place().data + 1 == mesh->data().world() : job.rank() + 1 == job.world();
    std::vector<StepReport> reports;
    for (int step = 1; step <= options.steps; ++step) {
      on_mesh ? run_actions(*engine, chain, options, step, last_place)
              : run_micro_steps(*engine, chain, options, step, last_place);
      if (auto const report = engine->step()) {
        reports.push_back(*report);
      }
    }
    trained = finish(*engine, chain, std::move(reports));
  });
  return trained;
}

}  // namespace zeroth::testing
