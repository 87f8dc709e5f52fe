// SPDX-License-Identifier: Apache-2.0
/// Small random models of nested units. Ranks skip different units and hold different guards open, but training gives
/// the same result at every stage and over every transport.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "engine/small_model.hpp"

namespace zeroth::testing {

class RandomNest {
 public:
  explicit RandomNest(unsigned seed) : seed_{seed} {
    std::mt19937 random{seed};
    auto const chance = [&](unsigned percent) { return random() % 100 < percent; };
    add(-1, true, random);
    int inner = -1;
    auto const leaves = 3 + random() % 4;
    for (unsigned leaf = 0; leaf < leaves; ++leaf) {
      if (inner < 0 && chance(25)) {
        inner = add(0, true, random);
      }
      add(inner > 0 && chance(70) ? inner : 0, false, random);
      inner = inner > 0 && nodes_.back().outer == 0 ? 0 : inner;  // children of the inner unit are consecutive
    }
    for (std::size_t tie = 0; tie < 2; ++tie) {
      auto const owner = random() % nodes_.size();
      auto const user = random() % nodes_.size();
      if (chance(60) && owner != user && nodes_[user].tied == none) {
        nodes_[user].tied = owner;
        model_.tie(nodes_[user].unit, nodes_[owner].weight);
      }
    }
  }

  /// Returns the bits of the reports and of the final weights. With `holds`, guards of units that do not stay open are
  /// held until the next unit's guard is open.
  [[nodiscard]] std::vector<std::uint32_t> train(Job& job, Config const& config, bool holds) {
    Engine<float> engine{job, model_, config};
    std::vector<std::uint32_t> bits;
    int micros = 0;
    auto const reports = testing::train(engine, 4, [&](auto& micro, int step) {
      std::mt19937 random{seed_ * 7919 + static_cast<unsigned>(job.rank() * 131 + micros++)};
      // The first step has no skips, so that the set of gathered units has settled.
      pass(micro, step == 0 ? 0 : random() % 100, random, holds);
    });
    for (auto const& report : reports) {
      bits.push_back(std::bit_cast<std::uint32_t>(report.loss));
      bits.push_back(std::bit_cast<std::uint32_t>(report.grad_norm));
    }
    for (auto const& node : nodes_) {
      std::vector<float> values(static_cast<std::size_t>(node.count));
      engine.read(node.weight, values);
      for (auto const value : values) {
        bits.push_back(std::bit_cast<std::uint32_t>(value));
      }
    }
    expect(engine.planned() == engine.peak(), "memory is not what was planned");
    return bits;
  }

  /// Returns the reports of `steps` steps without skips.
  [[nodiscard]] std::vector<StepReport> reports(Job& job, Config const& config, int steps) const {
    Engine<float> engine{job, model_, config};
    return testing::train(engine, steps, [&](auto& micro, int) {
      std::mt19937 random{seed_};
      pass(micro, 0, random, false);
    });
  }

  [[nodiscard]] Model const& model() const noexcept { return model_; }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct Node {
    Unit unit;
    Param<1> weight;
    std::int64_t count;
    int outer;  ///< -1 for the root.
    bool stays_open, trainable;
    std::size_t tied = none;
  };
  enum class Use : std::uint8_t { all, forward, none };

  int add(int outer, bool stays_open, std::mt19937& random) {
    auto const name = fmt::format("u{}", nodes_.size());
    auto const unit = model_.unit(name, {.stays_open = stays_open});
    auto const count = std::int64_t{100} + static_cast<std::int64_t>(random() % 400);
    bool const trainable = random() % 5 != 0 || outer < 0;
    auto const weight = model_.param(unit, name + ".w", {count}, Normal{0.5F}, {.trainable = trainable});
    nodes_.push_back({unit, weight, count, outer, stays_open, trainable});
    return static_cast<int>(nodes_.size()) - 1;
  }

  template <class Micro>
  void pass(Micro& micro, std::size_t dice, std::mt19937& random, bool holds) const {
    if (dice >= 90) {
      micro.skip();
      return;
    }
    std::vector<Use> uses(nodes_.size(), Use::all);
    for (auto& use : uses) {
      if (dice >= 40 && random() % 3 == 0) {
        use = random() % 3 == 0 ? Use::forward : Use::none;
      }
    }
    auto const sample = micro.first_sample();
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (uses[n] == Use::none) {
        micro.skip(nodes_[n].unit);
      }
    }
    forward(micro, uses, holds);
    float const seed = micro.report_loss(loss_of(sample));
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (uses[n] == Use::forward) {
        micro.skip(nodes_[n].unit);
      }
    }
    backward(micro, uses, holds, sample, seed);
  }

  template <class Micro>
  void forward(Micro& micro, std::vector<Use> const& uses, bool holds) const {
    std::vector<std::optional<Forward<float>>> guards(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      for (std::size_t other = 0; other < n; ++other) {  // ends the guards that need not stay open around this unit
        bool const around = nodes_[other].stays_open && (other == 0 || nodes_[n].outer == static_cast<int>(other));
        bool const held = holds && other + 1 == n && uses[n] != Use::none;
        if (!around && !held) {
          guards[other].reset();
        }
      }
      if (uses[n] != Use::none) {
        guards[n].emplace(micro.forward(nodes_[n].unit));
        expect((*guards[n])[nodes_[n].weight].count() == nodes_[n].count, "a weight has another size");
        if (n > 0 && !nodes_[n - 1].stays_open) {
          guards[n - 1].reset();
        }
      }
    }
  }

  template <class Micro>
  void backward(Micro& micro, std::vector<Use> const& uses, bool holds, std::int64_t sample, float seed) const {
    std::vector<std::optional<Backward<float, float>>> guards(nodes_.size());
    auto const end = [&](std::size_t n) {
      if (guards[n]) {
        auto const& node = nodes_[n];
        auto const unit = sample + static_cast<std::int64_t>(n);
        if (node.trainable) {
          contribute(*guards[n], node.weight, unit, seed);
        }
        if (node.tied != none && nodes_[node.tied].trainable) {
          contribute(*guards[n], nodes_[node.tied].weight, unit + 100, seed);
        }
        guards[n].reset();
      }
    };
    auto const begin = [&](std::size_t n) {
      if (uses[n] == Use::all && !guards[n]) {
        guards[n].emplace(micro.backward(nodes_[n].unit));
      }
    };
    begin(0);
    for (auto n = nodes_.size(); n-- > 1;) {
      if (nodes_[n].stays_open) {  // its children come after it in the order, and are done
        if (n + 1 < nodes_.size()) {
          end(n + 1);
        }
        begin(n);
        end(n);
        continue;
      }
      bool const held = holds && uses[n] == Use::all && n + 1 < nodes_.size() && nodes_[n].outer == nodes_[n + 1].outer;
      if (!held && n + 1 < nodes_.size()) {
        end(n + 1);
      }
      if (nodes_[n].outer > 0) {
        begin(static_cast<std::size_t>(nodes_[n].outer));
      }
      begin(n);
      if (held) {
        end(n + 1);
      }
    }
    end(1);
    end(0);
  }

  unsigned seed_;
  Model model_{11};
  std::vector<Node> nodes_;
};

/// Few slots; with `holds`, two units are gathered at once.
[[nodiscard]] inline Config nest_config(unsigned seed, int stage, bool holds) {
  auto const prefetch = holds ? (seed % 3 == 0 ? 600 : 1) : seed % 2;
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
           "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "weight_decay": 0.1}}}},
           "zero_optimization": {{"stage": {}, "stage3_prefetch_bucket_size": {}, "overlap_comm": {}}},
           "zeroth": {{"timeout_ms": 20000, "reduce_gradients": "every_micro_step", "gradient_slots": {},
                       "single_communicator": {}}}}})",
      stage, prefetch, holds || seed % 4 != 0, holds ? 3 + seed % 2 : 1 + seed % 3, !holds && seed % 5 == 0));
}

}  // namespace zeroth::testing
