// SPDX-License-Identifier: Apache-2.0
/// An independent training of the synthetic model: in fp64, in one process, without shards or buckets. It shares only
/// the initial values with the library.
#pragma once
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/synthetic.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {

struct ReferenceOptions {
  int world = 1, accumulation = 1, micro_batch = 1;
  double learning_rate = 0, weight_decay = 0, clip = 0;
};

struct ReferenceReport {
  double loss = 0, grad_norm = 0;
};

class Reference {
 public:
  explicit Reference(ReferenceOptions const& options) : options_{options} {
    SyntheticModel const synthetic;
    auto const& d = synthetic.model.description();
    for (auto const& param : d.params) {
      std::vector<float> initial(static_cast<std::size_t>(param.count));
      model::initialise(d.seed, param, 0, initial);
      State state;
      state.value.assign(initial.begin(), initial.end());
      state.gradient.resize(initial.size());
      state.m.resize(initial.size());
      state.v.resize(initial.size());
      state.options = param.options;
      states_.emplace(param.name, std::move(state));
    }
  }

  ReferenceReport step() {
    ++step_;
    double loss = 0;
    double weight = 0;
    for (auto& [name, state] : states_) {
      state.gradient.assign(state.gradient.size(), 0);
    }
    for (int micro = 0; micro < options_.accumulation; ++micro) {
      for (int rank = 0; rank < options_.world; ++rank) {
        bool const skips_all = step_ == 2 && micro == 0 && rank == options_.world - 1 && options_.world > 1;
        if (!skips_all) {
          double const share = micro == 1 ? 0.5 : 1.0;
          loss += share * micro_step(rank, micro, share);
          weight += share;
        }
      }
    }
    return {loss / weight, update(weight)};
  }

  /// In the order in which the trainer reads them.
  [[nodiscard]] std::vector<double> parameters() const {
    std::vector<double> all;
    for (auto const& block : blocks()) {
      for (auto const* names : {&block.trained, &block.read}) {
        for (auto const& name : *names) {
          auto const& value = states_.at(name).value;
          all.insert(all.end(), value.begin(), value.end());
        }
      }
    }
    return all;
  }

 private:
  struct State {
    std::vector<double> value, gradient, m, v;
    ParamOptions options;
  };
  struct Block {
    std::vector<std::string> trained, read;
    int uses = 1;
  };
  static std::vector<Block> const& blocks() {
    static std::vector<Block> const all{{{"wte", "wpe"}, {}},      {{"first.w", "first.b"}, {"first.frozen"}},
                                        {{"cell.w"}, {}, 2},       {{}, {"fixed.w"}},
                                        {{"expert.w"}, {}},        {{"last.w"}, {"last.never"}},
                                        {{"wte", "head.norm"}, {}}};
    return all;
  }

  double mean(std::string const& name) const {
    auto const& value = states_.at(name).value;
    double sum = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      sum += value[i] * static_cast<double>(1 + i % 3);
    }
    return sum / static_cast<double>(value.size());
  }
  double read(Block const& block) const {
    double sum = 0;
    for (auto const& name : block.trained) {
      sum += mean(name);
    }
    for (auto const& name : block.read) {
      sum += mean(name);
    }
    return sum;
  }
  double micro_step(int rank, int micro, double share) {
    auto const sample = static_cast<std::int64_t>(
        (((step_ - 1) * options_.accumulation + micro) * options_.world + rank) * options_.micro_batch);
    bool const skips_expert = (rank + micro + step_) % 2 == 0;
    auto const skipped = [&](std::size_t b) { return skips_expert && b == SyntheticModel::expert_index; };
    double state = static_cast<double>(noise(sample, 99));
    for (std::size_t b = 0; b < blocks().size(); ++b) {
      for (int use = 0; use < blocks()[b].uses && !skipped(b); ++use) {
        state = std::tanh(state + read(blocks()[b]));
      }
    }
    double const loss = 1 + state;
    for (std::size_t b = blocks().size(); b-- > 0;) {
      for (int use = 0; use < blocks()[b].uses && !skipped(b); ++use) {
        state = std::tanh(state + read(blocks()[b]));
        for (auto const& name : blocks()[b].trained) {
          auto& at = states_.at(name);
          for (std::size_t i = 0; i < at.value.size(); ++i) {
            auto const random = static_cast<double>(noise(sample + use, static_cast<std::int64_t>(i)));
            at.gradient[i] += share * (0.1 * at.value[i] + 0.05 * state + 0.2 * random);
          }
        }
      }
    }
    return loss;
  }
  /// AdamW; returns the norm.
  double update(double weight) {
    double square = 0;
    for (auto& [name, state] : states_) {
      for (auto& g : state.gradient) {
        g /= weight;
        square += g * g;
      }
    }
    double const norm = std::sqrt(square);
    double const scale = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1;
    for (auto& [name, state] : states_) {
      if (!state.options.trainable) {
        continue;
      }
      double const rate = options_.learning_rate * static_cast<double>(state.options.learning_rate_factor);
      double const decay = options_.weight_decay * static_cast<double>(state.options.weight_decay_factor);
      for (std::size_t i = 0; i < state.value.size(); ++i) {
        double const g = scale * state.gradient[i];
        state.m[i] = 0.9 * state.m[i] + 0.1 * g;
        state.v[i] = 0.999 * state.v[i] + 0.001 * g * g;
        double const m = state.m[i] / (1 - std::pow(0.9, step_));
        double const v = state.v[i] / (1 - std::pow(0.999, step_));
        state.value[i] -= rate * (m / (std::sqrt(v) + 1e-8) + decay * state.value[i]);
      }
    }
    return norm;
  }

  ReferenceOptions options_;
  std::map<std::string, State> states_;
  int step_ = 0;
};

}  // namespace zeroth::testing
