// SPDX-License-Identifier: Apache-2.0
/// A chain of units whose inputs a program keeps in an ActivationStore.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {

/// Each unit adds its parameter to its input, element by element.
struct Chain {
  static constexpr std::int64_t width = 1300;  // 5200 bytes: no whole blocks of a file
  static constexpr std::int64_t input_bytes = width * 4;
  static constexpr std::size_t length = 6;
  Model model{7};
  std::vector<Unit> units;
  std::vector<Param<1>> params;

  Chain() {
    for (std::size_t i = 0; i < length; ++i) {
      auto const name = fmt::format("unit{}", i);
      units.push_back(model.unit(name, {.input_per_sample = width}));
      params.push_back(model.param(units.back(), name + ".w", {width}, Normal{0.5F}));
    }
  }
};

inline Config chain_config(int stage, std::filesystem::path const& folder, std::string const& units = R"("all")",
                           int timeout_ms = 120000) {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
           "zero_optimization": {{"stage": {}}}, "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01}}}},
           "zeroth": {{"timeout_ms": {}, "reduce_gradients": "every_micro_step",
             "activation_checkpointing": {{"units": {}, "offload": "nvme", "nvme_path": "{}"}}}}}})",
      stage, timeout_ms, units, folder.string()));
}

/// The inputs of one micro-step's units: those in the store have two buffers between them.
struct ChainTape {
  std::vector<std::vector<float>> x{Chain::length + 1, std::vector<float>(Chain::width)};
  std::vector<std::vector<float>> passing{2, std::vector<float>(Chain::width)};
  std::vector<ActivationStore::Kept> kept{Chain::length};
};

inline void chain_micro_step(MicroStep<float, float>& micro, Chain const& chain, ActivationPolicy const& policy,
                             ActivationStore* store, ChainTape& tape) {
  auto const stored = [&](std::size_t i) {
    return store != nullptr && i < Chain::length && policy.offloads(chain.units[i]);
  };
  auto const input = [&](std::size_t i) -> std::vector<float>& { return stored(i) ? tape.passing[i % 2] : tape.x[i]; };
  for (std::int64_t e = 0; e < Chain::width; ++e) {
    input(0)[static_cast<std::size_t>(e)] = noise(micro.first_sample(), e);
  }
  for (std::size_t i = 0; i < Chain::length; ++i) {
    auto const p = micro.forward(chain.units[i]);
    auto const w = p[chain.params[i]];
    for (std::size_t e = 0; e < static_cast<std::size_t>(Chain::width); ++e) {
      input(i + 1)[e] = 0.5F * input(i)[e] + w.data()[e];
    }
    if (stored(i)) {
      tape.kept[i] = store->put(input(i).data(), Chain::input_bytes, chain.units[i]);
    }
  }
  float const seed = micro.report_loss(input(Chain::length)[0]);
  auto next = Chain::length;
  auto const fetch_next = [&] {
    while (next > 0 && !stored(--next)) {
    }
    if (stored(next) && tape.kept[next]) {
      tape.kept[next].fetch();
    }
  };
  for (int slot = 0; store != nullptr && slot < store->slots(); ++slot) {
    fetch_next();
  }
  for (auto i = Chain::length; i-- > 0;) {
    auto const p = micro.backward(chain.units[i]);
    auto& x = input(i);
    if (stored(i)) {
      x.assign(x.size(), -1.0F);
      tape.kept[i].take(x.data());
      fetch_next();
    }
    auto const grad = p.grad(chain.params[i]);
    for (std::size_t e = 0; e < static_cast<std::size_t>(Chain::width); ++e) {
      grad.data()[e] = (grad.beta() == 0 ? 0.0F : grad.data()[e]) + seed * x[e];
    }
  }
}

/// Trains, and returns each step's report.
inline std::vector<StepReport> train_chain(Engine<float>& engine, Chain const& chain, ActivationPolicy const& policy,
                                           ActivationStore* store, int steps) {
  ChainTape tape;
  std::vector<StepReport> reports;
  for (int step = 0; step < steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      chain_micro_step(micro, chain, policy, store, tape);
    }
    if (auto const report = engine.step()) {
      reports.push_back(*report);
    }
  }
  reports.push_back(*engine.finish());
  return reports;
}

}  // namespace zeroth::testing
