// SPDX-License-Identifier: Apache-2.0
#include "jobs/arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "support/noise.hpp"

namespace zeroth::testing::jobs {
namespace {

float load(void const* data, Dtype dtype, std::int64_t at) {
  switch (dtype) {
    case Dtype::bf16: return to_float(static_cast<bf16 const*>(data)[at]);
    case Dtype::fp16: return to_float(static_cast<fp16 const*>(data)[at]);
    default: return static_cast<float const*>(data)[at];
  }
}

void store(void* data, Dtype dtype, std::int64_t at, float value) {
  switch (dtype) {
    case Dtype::bf16: static_cast<bf16*>(data)[at] = from_float<bf16>(value); break;
    case Dtype::fp16: static_cast<fp16*>(data)[at] = from_float<fp16>(value); break;
    default: static_cast<float*>(data)[at] = value;
  }
}

/// Calls `f(element)` for the part's padding elements.
template <class F>
void each_of_padding(std::optional<model::CutPart> const& part, F const& f) {
  if (!part) {
    return;
  }
  part->each_run(0, part->count(), [&](model::CutPart::Run const& run) {
    for (auto i = run.first; run.is_padding() && i < run.first + run.count; ++i) {
      f(i);
    }
  });
}

}  // namespace

double read(AnyParams const& p, BuiltUnit const& unit) {
  double total = 0;
  for (auto const& each : unit.read) {
    auto const view = p[each.param];
    double sum = 0;
    for (std::int64_t i = 0; i < view.count; ++i) {
      sum += static_cast<double>(load(view.data, view.dtype, i)) * static_cast<double>(1 + i % 3);
    }
    total += sum / static_cast<double>(view.count);
  }
  return total;
}

std::vector<float> elements(AnyView const& view) {
  std::vector<float> all(static_cast<std::size_t>(view.count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = load(view.data, view.dtype, static_cast<std::int64_t>(i));
  }
  return all;
}

std::vector<float> values_of(AnyParams const& p, BuiltUnit const& unit) {
  std::vector<float> all;
  for (auto const& [param, part] : unit.read) {
    auto const more = elements(p[param]);
    all.insert(all.end(), more.begin(), more.end());
    each_of_padding(part, [&](std::int64_t i) {
      if (auto const value = more[static_cast<std::size_t>(i)]; value != 0) {
        throw std::runtime_error{fmt::format("element {} of a part is padding, and {}", i, value)};
      }
    });
  }
  return all;
}

void contribute(AnyGradient const& grad, BuiltParam const& param, std::vector<float> const& values,
                Sample const& sample) {
  for (std::int64_t i = 0; i < grad.count(); ++i) {
    auto const value = values[static_cast<std::size_t>(i)];
    float fresh =
        sample.seed * (0.1F * value + 0.05F * static_cast<float>(sample.state) + 0.2F * noise(sample.number, i));
    if (sample.bad != 0 && i == grad.count() / 2) {
      fresh = sample.bad;
    }
    float const old = grad.beta() == 0 ? 0.0F : load(grad.data(), grad.dtype(), i);
    store(grad.data(), grad.dtype(), i, old + fresh);
  }
  if (sample.spares_padding) {
    each_of_padding(param.part, [&](std::int64_t i) { store(grad.data(), grad.dtype(), i, 0); });
  }
}

void clip(ReducedGradient const& gradient) {
  auto const most = static_cast<float>(0.05 / gradient.scale);
  for (std::int64_t i = 0; i < gradient.count; ++i) {
    auto const value = load(gradient.data, gradient.dtype, i);
    store(gradient.data, gradient.dtype, i, std::clamp(value, -most, most));
  }
}

void contribute(AnyBackward const& p, BuiltParam const& param, Sample const& sample) {
  contribute(p.grad(param.param), param, elements(p[param.param]), sample);
}

}  // namespace zeroth::testing::jobs
