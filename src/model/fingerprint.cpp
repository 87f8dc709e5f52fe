// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <variant>

#include "core/hash.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::model {
namespace {

struct AddInit {
  Fnv1a& hash;
  ParamDescription const& param;
  void operator()(Constant const& init) const noexcept { hash.add(init.value); }
  void operator()(Normal const& init) const noexcept {
    hash.add(init.stddev);
    hash.add(init.mean);
  }
  void operator()(Uniform const& init) const noexcept {
    hash.add(init.low);
    hash.add(init.high);
  }
  void operator()(PerElement const& init) const { add_samples("PerElement", init.value_at); }
  void operator()(FromMemory const& init) const {
    add_samples("FromMemory", [&](std::int64_t index) {
      float value = 0;
      init.fill(index, {&value, 1});
      return value;
    });
  }
  /// Adds a few of the function's values, each computed twice.
  template <class F>
  void add_samples(char const* kind, F const& value_at) const {
    constexpr std::int64_t most = 16;
    auto const count = param.global_count();
    auto const samples = std::min(most, count);
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      auto const index = sample == samples - 1 ? count - 1 : count / samples * sample;
      auto const value = value_at(index);
      auto const again = value_at(index);
      ZEROTH_EXPECTS(std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(again),
                     fmt::format("{} of parameter \"{}\" gave {}, then {} for element {}: it must be a pure "
                                 "function of the index",
                                 kind, param.name, value, again, index));
      hash.add(value);
    }
  }
};

/// Adds nothing if there are no such options, so that the hash is the same as before they existed.
void add_newer_options(Fnv1a& hash, ParamOptions const& options) {
  if (options.compute) {
    hash.add(std::uint64_t{3});
  }
  if (options.matrix) {
    hash.add(std::uint64_t{2});
  }
  if (options.partial) {
    hash.add(std::uint64_t{1});
  }
  if (auto const& cut = options.cut) {
    hash.add(static_cast<std::uint64_t>(cut->dim));
    hash.add(static_cast<std::uint64_t>(cut->multiple));
    hash.add(static_cast<std::uint64_t>(cut->sections.size()));
    for (auto const section : cut->sections) {
      hash.add(static_cast<std::uint64_t>(section));
    }
  }
}

}  // namespace

/// The hash of a model's structure. Every field ends with its length or kind, so that none runs into the next.
std::uint64_t fingerprint(Description const& description) {
  Fnv1a hash;
  hash.add(description.seed);
  hash.add(static_cast<std::uint64_t>(description.units.size()));
  for (auto const& unit : description.units) {
    hash.add(unit.name);
    hash.add(static_cast<std::uint64_t>(unit.uses_per_micro_step));
    hash.add(std::uint64_t{unit.stays_open});
    if (!unit.reshard_after_forward) {
      hash.add(std::uint64_t{4});
    }
    if (unit.input_per_sample > 0) {  // otherwise the hash is the same as before pipelines existed
      hash.add(static_cast<std::uint64_t>(unit.input_per_sample));
    }
    hash.add(static_cast<std::uint64_t>(unit.params.size()));
    for (auto const param : unit.params) {
      hash.add(std::uint64_t{index_of(param)});
    }
    hash.add(static_cast<std::uint64_t>(unit.ties.size()));
    for (auto const param : unit.ties) {
      hash.add(std::uint64_t{index_of(param)});
    }
  }
  for (auto const& param : description.params) {
    hash.add(param.name);
    hash.add(static_cast<std::uint64_t>(param.global_shape().size()));
    for (auto const extent : param.global_shape()) {
      hash.add(static_cast<std::uint64_t>(extent));
    }
    hash.add(static_cast<std::uint64_t>(param.init.index()));
    std::visit(AddInit{hash, param}, param.init);
    hash.add(std::uint64_t{param.options.trainable});
    hash.add(param.options.learning_rate_factor);
    hash.add(param.options.weight_decay_factor);
    add_newer_options(hash, param.options);
  }
  return hash.value();
}

}  // namespace zeroth::model
