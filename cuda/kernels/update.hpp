// SPDX-License-Identifier: Apache-2.0
/// An update by a rule, in one pass over master, states, gradient and parameter. bf16 masters and states are rounded
/// stochastically.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/dispatch.hpp"
#include "cuda/kernels/segments.hpp"
#include "cuda/packs.hpp"
#include "optim/ema_element.hpp"
#include "optim/rule_elements.hpp"
#include "optim/stochastic_rounding.hpp"

namespace zeroth::cuda {

/// An update of some segments. P is the parameter's type, or void if the master is the parameter; M is the master's
/// type and S that of the states, each fp32 or bf16.
template <class Rule, class G, class P, class M, class S>
struct Update {
  static constexpr int state_count = Rule::state_count;
  static constexpr int threads = 256;
  static constexpr int pack = pack_count<M, S, G, std::conditional_t<Element<P>, P, M>>;
  static constexpr bool rounds = std::is_same_v<M, bf16>;
  static_assert(!rounds || pack == optim::noise_lanes);
  static constexpr int tile_count = threads * pack * 2;
  struct Shared {};

  M* master;
  S* states[optim::most_states];
  G const* gradient;
  P* parameter;
  float* average;  // null if none is kept
  float average_rate;
  Rule rule;
  std::int64_t rounding_seed;
  optim::StepScalars const* scalars;
  PackGrid<pack> grid;
  SegmentTiles segments;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      if (scalars->skip) {
        return;
      }
      auto const noise = optim::noise_of(rounding_seed, *scalars);
      for (std::int64_t i = block.index(); i < segments.tiles(); i += block.count()) {
        int const k = segments.segment_of(i);
        auto const& segment = segments.segments[k];
        auto const tile = tile_of<tile_count>(grid, segment.begin, segment.end, segments.index_in(k, i));
        auto const factors = optim::factors_of(rule, *scalars, segment);
        each_pack<threads>(packs_of(segment), tile, thread, [&](std::int64_t first, auto count) {
          update(factors, {noise, segment.element + (first - segment.begin)}, first, count);
        });
        if constexpr (!rounds) {  // after the tile, so that its loop needs no more registers
          if (average != nullptr) {
            each_pack<threads>(packs_of(segment), tile, thread,
                               [&](std::int64_t first, auto count) { move_average(first, count); });
          }
        }
      }
    });
  }

  [[nodiscard]] std::int64_t tiles_of_segment(optim::Segment const& segment) const {
    return tiles_of<tile_count>(grid, segment.begin, segment.end);
  }

 private:
  /// Uses single elements if packs do not begin with the elements that share random words. Layouts ensure that they do.
  [[nodiscard]] ZEROTH_DEVICE PackGrid<pack> packs_of(optim::Segment const& segment) const {
    bool const apart = rounds && (segment.element - segment.begin + grid.origin) % pack != 0;
    return apart ? PackGrid<pack>{} : grid;
  }

  /// The source of rounding noise for the first element of a pack, which depends on its position in the model.
  struct NoiseAt {
    optim::RoundingNoise noise;
    std::int64_t element;
  };

  template <class Factors, int count>
  ZEROTH_DEVICE void update(Factors const& factors, NoiseAt const& at, std::int64_t first, Count<count> size) const {
    update(factors, at, first, size, std::make_index_sequence<state_count>{});
  }

  template <class Factors, int count, std::size_t... state>
  ZEROTH_DEVICE void update(Factors const& factors, NoiseAt const& at, std::int64_t first, Count<count> /*size*/,
                            std::index_sequence<state...> /*states*/) const {
    auto const narrow = load<count>(gradient + first);
    auto wide = widened(load<count>(master + first));
    // One more than needed, since there may be none.
    Pack<float, count> kept[state_count + 1] = {widened(load<count>(states[state] + first))..., {}};
    for (int k = 0; k < count; ++k) {
      optim::update_element(factors, to_float(narrow.at[k]), wide.at[k], kept[state].at[k]...);
    }
    store(master + first, rounded<M>(wide, optim::Rounded::master, at));
    if constexpr (optim::updates_states<Rule>) {
      (store(states[state] + first, rounded<S>(kept[state], optim::rounded_state(int{state}), at)), ...);
    }
    if constexpr (Element<P>) {
      Pack<P, count> narrowed;
      for (int k = 0; k < count; ++k) {
        narrowed.at[k] = from_float<P>(wide.at[k]);
      }
      store(parameter + first, narrowed);
    }
  }

  template <int count>
  ZEROTH_DEVICE void move_average(std::int64_t first, Count<count> /*size*/) const {
    auto const now = load<count>(master + first);
    auto moved = load<count>(average + first);
    for (int k = 0; k < count; ++k) {
      moved.at[k] = optim::averaged(moved.at[k], now.at[k], average_rate);
    }
    store(average + first, moved);
  }

  template <class T, int count>
  [[nodiscard]] static ZEROTH_DEVICE Pack<float, count> widened(Pack<T, count> const& values) {
    Pack<float, count> wide;
    for (int k = 0; k < count; ++k) {
      wide.at[k] = to_float(values.at[k]);
    }
    return wide;
  }

  /// Rounds `wide` to T, fp32 or bf16. A pack has the elements that share random words, or is one element.
  template <class T, int count>
  [[nodiscard]] static ZEROTH_DEVICE Pack<T, count> rounded(Pack<float, count> const& wide, optim::Rounded what,
                                                            NoiseAt const& at) {
    if constexpr (std::is_same_v<T, float>) {
      return wide;
    } else {
      auto const words =
          optim::noise_words(at.noise, what, static_cast<std::uint64_t>(at.element) / optim::noise_lanes);
      int const lane = count == optim::noise_lanes ? 0 : static_cast<int>(at.element % optim::noise_lanes);
      Pack<T, count> result;
      for (int k = 0; k < count; ++k) {
        result.at[k] = optim::round_stochastically(wide.at[k], optim::noise_at(words, lane + k));
      }
      return result;
    }
  }
};

template <class G, class P, class M, class S, class Rule, class Launch>
[[nodiscard]] cudaError_t launch_segments(Launch const& launch, optim::UpdateArgs const& args, Rule const& rule) {
  using Body = Update<Rule, G, P, M, S>;
  auto const state = [&](int k) {
    return static_cast<S*>(k < Rule::state_count ? args.states[static_cast<std::size_t>(k)] : nullptr);
  };
  std::array const arrays{Array{args.master, sizeof(M)},
                          Array{state(0), sizeof(S)},
                          Array{state(1), sizeof(S)},
                          Array{args.gradient, sizeof(G)},
                          Array{args.parameter, args.parameter == nullptr ? 0 : bytes_of(args.parameter_dtype)},
                          Array{args.average, args.average == nullptr ? 0 : bytes_of(Dtype::fp32)}};
  static_assert(optim::most_states == 2);
  Body body{static_cast<M*>(args.master),
            {state(0), state(1)},
            static_cast<G const*>(args.gradient),
            static_cast<P*>(args.parameter),
            args.average,
            optim::average_rate(args.update->ema_decay),
            rule,
            args.update->rounding_seed,
            args.scalars,
            pack_grid<Body::pack>(arrays),
            {}};
  return launch_on_segments(launch, body, args.segments);
}

/// Calls `function(std::type_identity<G>{})` with the type of the gradients of `Rule`. Directions of Muon are bf16.
template <class Rule, class F>
void with_gradient(Dtype dtype, F const& function) {
  if constexpr (std::is_same_v<Rule, optim::MuonUpdate>) {
    function(std::type_identity<bf16>{});
  } else {
    with_element(dtype, function);
  }
}

/// Instantiates only the combinations that device::expect_update() accepts, since each is a kernel.
template <class Rule, class Launch>
[[nodiscard]] cudaError_t launch_rule(Launch const& launch, optim::UpdateArgs const& args, Rule const& rule) {
  if (args.master_dtype == Dtype::bf16) {
    if constexpr (Rule::state_count > 0) {
      if (args.states_dtype == Dtype::bf16) {
        return launch_segments<bf16, void, bf16, bf16>(launch, args, rule);
      }
    }
    return launch_segments<bf16, void, bf16, float>(launch, args, rule);
  }
  cudaError_t result = cudaSuccess;
  with_gradient<Rule>(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    if (args.parameter == nullptr) {
      result = launch_segments<G, void, float, float>(launch, args, rule);
    } else if (args.parameter_dtype == Dtype::bf16) {
      result = launch_segments<G, bf16, float, float>(launch, args, rule);
    } else {
      result = launch_segments<G, fp16, float, float>(launch, args, rule);
    }
  });
  return result;
}

/// Calls `function(rule)` with the rule of `args`.
template <class F>
[[nodiscard]] cudaError_t with_rule(optim::UpdateArgs const& args, F const& function) {
  return std::visit(
      [&]<class Rule>(Rule const& rule) {
        if constexpr (std::is_same_v<Rule, optim::CustomRule>) {
          return cudaErrorNotSupported;  // a function of the host
        } else if constexpr (std::is_same_v<Rule, optim::Muon>) {
          return function(optim::MuonUpdate{rule.weight_decay});
        } else {
          return function(rule);
        }
      },
      args.update->rule);
}

}  // namespace zeroth::cuda
