// SPDX-License-Identifier: Apache-2.0
#include "jobs/walk.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "jobs/arithmetic.hpp"
#include "jobs/random.hpp"
#include "support/noise.hpp"
#include "support/synthetic.hpp"

namespace zeroth::testing::jobs {
namespace {

constexpr std::size_t no_unit = std::numeric_limits<std::size_t>::max();

}  // namespace

Walk::Walk(Drawn const& drawn, Choice const& choice, BuiltModel const& built, int place, int ranks, TensorSums* tensor,
           bool spares_padding, KeptInputs* kept)
    : drawn_{drawn},
      choice_{choice},
      built_{built},
      tensor_{tensor},
      place_{place},
      ranks_{ranks},
      spares_padding_{spares_padding},
      kept_{kept},
      micro_batch_{std::stoi(std::string{choice["train_micro_batch_size_per_gpu"]})},
      order_(built.units.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (choice.is("order", "another")) {
    Random random{drawn.seed, "order"};
    std::size_t const first = drawn.units.front().stays_open ? 1 : 0;
    for (auto i = order_.size(); i-- > first + 1;) {
      std::swap(order_[i], order_[first + random.below(i - first + 1)]);
    }
  }
}

void Walk::train(AnyMicroStep& micro, At at, std::vector<Metric> const& metrics) const {
  if (choice_.is("skips micro-steps", "at times") && happens(drawn_.seed, "skip", 4, at.step, number(at))) {
    micro.skip();
    return;
  }
  auto const skips = skipped(at);
  if (choice_.is("skips units", "at once")) {
    for (std::size_t u = 0; u < skips.size(); ++u) {
      if (skips[u]) {
        micro.skip(built_.units[u].unit);
      }
    }
  }
  auto const state = forward(micro, skips);
  for (auto const& metric : metrics) {
    micro.report_metric(metric, state, 1.0 + number(at));
  }
  float const seed = micro.report_loss(static_cast<float>(1 + state), {.weight = weight(at)});
  auto const rest = [&] { backward(micro, skips, state, seed, bad_gradient(at)); };
  choice_.is("backward", "on a new one") ? on_new_thread(rest) : rest();
}

std::vector<bool> Walk::skipped(At at) const {
  std::vector<bool> skips(drawn_.units.size());
  for (std::size_t u = 0; u < skips.size(); ++u) {
    skips[u] = !choice_.is("skips units", "never") && drawn_.units[u].may_be_skipped &&
               happens(drawn_.seed, "skip a unit", 2, at.step, number(at), u);
  }
  return skips;
}

double Walk::forward(AnyMicroStep& micro, std::vector<bool> const& skips) const {
  double state = noise(micro.first_sample(), 99);
  std::unique_ptr<AnyForward> root, neighbour;
  auto before = no_unit;
  for (auto const u : order_) {
    auto const& unit = built_.units[u];
    if (skips[u] && !choice_.is("skips units", "after forward")) {
      if (choice_.is("skips units", "in its turn")) {
        micro.skip(unit.unit);
      }
      continue;
    }
    for (int use = 0; use < drawn_.units[u].uses; ++use) {
      if (before == u) {
        neighbour.reset();
      }
      auto p = std::make_unique<AnyForward>(micro.forward(unit.unit));
      state = std::tanh(state + read(*p, unit) + drawn(micro, u));
      if (kept_ != nullptr) {
        kept_->put(u, micro.first_sample());
      }
      if (neighbour) {
        state = std::tanh(state + read(*neighbour, built_.units[before]));
      }
      if (drawn_.units[u].stays_open) {
        root = std::move(p);
      } else if (choice_.is("nested guards", "neighbours")) {
        neighbour = std::move(p);
        before = u;
      }
    }
  }
  return state + (root ? read(*root, built_.units.front()) : 0);
}

void Walk::backward(AnyMicroStep& micro, std::vector<bool> const& skips, double state, float seed, float bad) const {
  bool const has_root = drawn_.units.front().stays_open;
  std::optional<AnyBackward> root;
  if (has_root) {
    root.emplace(micro.backward(built_.units.front().unit));
  }
  for (auto u = built_.units.size(); u-- > (has_root ? 1U : 0U);) {
    if (!skips[u]) {
      backward_of(micro, u, state, seed, bad);
    } else if (choice_.is("skips units", "after forward")) {
      micro.skip(built_.units[u].unit);
    }
  }
  if (root) {
    contribute(*root, built_.units.front(), 0, {state, micro.first_sample(), seed, bad});
  }
}

void Walk::backward_of(AnyMicroStep& micro, std::size_t u, double state, float seed, float bad) const {
  auto const& unit = built_.units[u];
  for (int use = 0; use < drawn_.units[u].uses; ++use) {
    auto const p = micro.backward(unit.unit);
    if (kept_ != nullptr) {
      kept_->take(u, micro.first_sample());
    }
    contribute(p, unit, drawn(micro, u), {state, micro.first_sample() + use, seed, bad});
  }
}

void Walk::contribute(AnyBackward const& p, BuiltUnit const& unit, double drawn, Sample const& sample) const {
  auto const add = [&](std::size_t i, Sample each, double seen) {
    each.state = seen;
    jobs::contribute(p, unit.trained[i], each);
  };
  auto const together = seen(p, unit, sample.state, drawn, [&](double own) {
    for (std::size_t i = 0; i < unit.in_parts; ++i) {
      add(i, in_part(sample), own);
    }
  });
  for (auto i = unit.in_parts; i < unit.trained.size(); ++i) {
    add(i, sample, together);
  }
}

float Walk::weight(At at) const {
  if (choice_.is("weights of losses", "one")) {
    return 1;
  }
  if (choice_.is("weights of losses", "zero at times") && happens(drawn_.seed, "no weight", 3, at.step, number(at))) {
    return 0;
  }
  return happens(drawn_.seed, "weight", 2, at.step, number(at)) ? 0.5F : 1.0F;
}

float Walk::bad_gradient(At at) const {
  if (choice_.is("overflow", "never")) {
    return 0;
  }
  auto const step = 1 + static_cast<int>(drawn_.seed % static_cast<std::uint64_t>(drawn_.steps));
  bool const here = at.step == step && number(at) == drawn_.ranks() - 1;
  using Limits = std::numeric_limits<float>;
  return !here ? 0.0F : choice_.is("overflow", "NaN") ? Limits::quiet_NaN() : Limits::infinity();
}

void Walk::evaluate(AnyEvaluationPass& pass) const {
  double state = noise(pass.first_sample(), 5);
  for (auto const u : order_) {
    auto const p = pass.forward(built_.units[u].unit);
    state = std::tanh(state + read(p, built_.units[u]));
  }
  pass.report_loss(static_cast<float>(state + 2), {.weight = weight_of_evaluation()});
}

std::vector<Walk::Values> Walk::values(AnyEvaluationPass& pass) const {
  std::vector<Values> all;
  for (auto const& unit : built_.units) {
    auto const p = pass.forward(unit.unit);
    all.push_back({unit.unit.index(), values_of(p, unit)});
  }
  pass.report_loss(0);
  return all;
}

}  // namespace zeroth::testing::jobs
