// SPDX-License-Identifier: Apache-2.0
#include "jobs/stage_walk.hpp"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

#include "jobs/arithmetic.hpp"
#include "jobs/random.hpp"
#include "support/noise.hpp"
#include "support/synthetic.hpp"

namespace zeroth::testing::jobs {
namespace {

/// The state that the walk carries to another chunk.
struct Carried {
  double state = 0;
  float seed = 0;
};
constexpr std::size_t carried_bytes = sizeof(double) + sizeof(float);  // six elements of 16 bits

enum class Kind : std::uint8_t { up, down, evaluation };

/// Identifies a message: its kind, the chunk that has its memory as an input, and its samples.
struct Named {
  Kind kind;
  int chunk;
  std::int64_t first_sample;
  [[nodiscard]] std::uint64_t seed() const {
    return static_cast<std::uint64_t>(first_sample) * 64 + static_cast<std::uint64_t>(chunk) * 4 +
           static_cast<std::uint64_t>(kind);
  }
};

std::span<std::byte> bytes(AnyMessage const& message, Dtype dtype) {
  auto const count = message.samples * message.per_sample * bytes_of(dtype);
  return {static_cast<std::byte*>(message.data), static_cast<std::size_t>(count)};
}

void write(AnyMessage const& message, Dtype dtype, Named const& name, Carried const& carried) {
  auto const all = bytes(message, dtype);
  std::memcpy(all.data(), &carried.state, sizeof(double));
  std::memcpy(all.data() + sizeof(double), &carried.seed, sizeof(float));
  Random random{name.seed(), "message"};
  for (auto& each : all.subspan(carried_bytes)) {
    each = static_cast<std::byte>(random.below(256));
  }
}

Carried read(AnyMessage const& message, Dtype dtype, Named const& name) {
  auto const all = bytes(message, dtype);
  Random random{name.seed(), "message"};
  for (std::size_t i = carried_bytes; i < all.size(); ++i) {
    if (all[i] != static_cast<std::byte>(random.below(256))) {
      throw std::runtime_error{fmt::format("byte {} of {} is not that of the message of kind {} at chunk {}, sample {}",
                                           i, all.size(), static_cast<int>(name.kind), name.chunk, name.first_sample)};
    }
  }
  Carried carried;
  std::memcpy(&carried.state, all.data(), sizeof(double));
  std::memcpy(&carried.seed, all.data() + sizeof(double), sizeof(float));
  return carried;
}

}  // namespace

void StageWalk::train(AnyWork& work, int step, std::vector<Metric> const& metrics) {
  auto& tape = tapes_[static_cast<std::size_t>(work.slot())];
  At const at{step, work.micro_step()};
  if (work.phase() == Phase::forward) {
    forward(work, tape, at, metrics);
    return;
  }
  auto const back = [&] {
    check_messages(work, tape);
    switch (work.phase()) {
      case Phase::backward_inputs: backward_inputs(work, tape); break;
      case Phase::backward_weights: backward_weights(work, tape, at); break;
      default: backward(work, tape, at);
    }
    if (!work.first() && work.phase() != Phase::backward_weights) {
      write(work.input_gradient(), dtype_, {Kind::down, work.chunk(), work.first_sample()}, {tape.state, tape.seed});
    }
  };
  choice_.is("backward", "on a new one") ? on_new_thread(back) : back();
}

template <class Pass>
double StageWalk::go_forward(Pass& pass, double state) const {
  constexpr bool trains = std::same_as<Pass, AnyWork>;
  for (auto const handle : pass.units()) {
    auto const& unit = built_.units[handle.index()];
    for (int use = 0; use < (trains ? drawn_.units[handle.index()].uses : 1); ++use) {
      auto const p = pass.forward(handle);
      double drawn = 0;
      if constexpr (trains) {
        drawn = walk_.drawn(pass, handle.index());
      }
      state = std::tanh(state + walk_.read(p, unit) + drawn);
    }
  }
  return state;
}

void StageWalk::forward(AnyWork& work, Tape& tape, At at, std::vector<Metric> const& metrics) const {
  auto const first = work.first_sample();
  double const before =
      work.first() ? noise(first, 99) : read(work.input(), dtype_, {Kind::up, work.chunk(), first}).state;
  auto const state = go_forward(work, before);
  tape = {};
  if (!work.last()) {
    write(work.output(), dtype_, {Kind::up, work.chunk() + 1, first}, {state});
    return;
  }
  for (auto const& metric : metrics) {
    work.report_metric(metric, state, 1.0 + walk_.number(at));
  }
  tape.state = state;
  tape.seed = work.report_loss(static_cast<float>(1 + state), {.weight = walk_.weight(at)});
}

/// Checks that received messages stay until the last action that may read them.
void StageWalk::check_messages(AnyWork const& work, Tape& tape) const {
  if (!work.first()) {
    static_cast<void>(read(work.input(), dtype_, {Kind::up, work.chunk(), work.first_sample()}));
  }
  if (!work.last()) {
    auto const carried = read(work.output_gradient(), dtype_, {Kind::down, work.chunk() + 1, work.first_sample()});
    tape.state = carried.state;
    tape.seed = carried.seed;
  }
}

void StageWalk::backward(AnyWork& work, Tape& tape, At at) const {
  auto const units = work.units();
  for (auto each = units.rbegin(); each != units.rend(); ++each) {
    auto const& unit = built_.units[each->index()];
    for (int use = 0; use < drawn_.units[each->index()].uses; ++use) {
      auto const p = work.backward(*each);
      walk_.contribute(p, unit, walk_.drawn(work, each->index()),
                       {tape.state, work.first_sample() + use, tape.seed, walk_.bad_gradient(at)});
    }
  }
}

void StageWalk::backward_inputs(AnyWork& work, Tape& tape) const {
  auto const units = work.units();
  for (auto each = units.rbegin(); each != units.rend(); ++each) {
    auto const& unit = built_.units[each->index()];
    for (int use = 0; use < drawn_.units[each->index()].uses; ++use) {
      auto const p = work.inputs(*each);
      Use made{};
      made.together =
          walk_.seen(p, unit, tape.state, walk_.drawn(work, each->index()), [&](double own) { made.own = own; });
      for (auto const& param : unit.trained) {
        made.values.push_back(elements(p[param.param]));
      }
      tape.uses.push_back(std::move(made));
    }
  }
}

void StageWalk::backward_weights(AnyWork& work, Tape const& tape, At at) const {
  auto const units = work.units();
  auto made = tape.uses.begin();
  for (auto each = units.rbegin(); each != units.rend(); ++each) {
    auto const& unit = built_.units[each->index()];
    for (int use = 0; use < drawn_.units[each->index()].uses; ++use, ++made) {
      auto const p = work.weights(*each);
      for (std::size_t i = 0; i < unit.trained.size(); ++i) {
        Sample const all{made->together, work.first_sample() + use, tape.seed, walk_.bad_gradient(at)};
        auto sample = i < unit.in_parts ? walk_.in_part(all) : all;
        sample.state = i < unit.in_parts ? made->own : made->together;
        contribute(p.grad(unit.trained[i].param), unit.trained[i], made->values[i], sample);
      }
    }
  }
}

void StageWalk::evaluate(AnyEvaluationPass& pass) const {
  auto const first = pass.first_sample();
  double const before =
      pass.first() ? noise(first, 5) : read(pass.input(), dtype_, {Kind::evaluation, pass.chunk(), first}).state;
  auto const state = go_forward(pass, before);
  if (pass.last()) {
    pass.report_loss(static_cast<float>(state + 2), {.weight = walk_.weight_of_evaluation()});
  } else {
    write(pass.output(), dtype_, {Kind::evaluation, pass.chunk() + 1, first}, {state});
  }
}

std::vector<Walk::Values> StageWalk::values(AnyEvaluationPass& pass) const {
  std::vector<Walk::Values> all;
  for (auto const handle : pass.units()) {
    auto const p = pass.forward(handle);
    all.push_back({handle.index(), values_of(p, built_.units[handle.index()])});
  }
  if (pass.last()) {
    pass.report_loss(0);
  } else {
    write(pass.output(), dtype_, {Kind::evaluation, pass.chunk() + 1, pass.first_sample()}, {});
  }
  return all;
}

}  // namespace zeroth::testing::jobs
