// SPDX-License-Identifier: Apache-2.0
#include "shard/held_state.hpp"

#include <algorithm>

namespace zeroth::shard {
namespace {

/// Calls `use` for those of `elements` in memory, and `use_rest` for the others, with their range among the offloaded
/// elements.
template <class F>
void use_each(HeldState const& held, Range elements, OffloadedStates::Use const& use, F const& use_rest) {
  auto const split = std::clamp(held.in_memory_count, elements.begin, elements.end);
  if (elements.begin < split) {
    use(held.data + elements.begin * bytes_of(held.dtype), 0, split - elements.begin);
  }
  if (split < elements.end) {
    auto const before = held.rest.first - held.in_memory_count;
    use_rest(Range{before + split, before + elements.end},
             [&](std::byte* data, std::int64_t first, std::int64_t count) {
               use(data, split - elements.begin + first, count);
             });
  }
}

}  // namespace

HeldState HeldState::part(std::int64_t first, std::int64_t count) const noexcept {
  auto result = *this;
  result.data = first < in_memory_count ? data + first * bytes_of(dtype) : nullptr;
  result.in_memory_count = std::clamp(in_memory_count - first, std::int64_t{0}, count);
  result.rest.first += std::max(first - in_memory_count, std::int64_t{0});
  return result;
}

void HeldState::look(Range elements, OffloadedStates::Use const& use) const {
  use_each(*this, elements, use,
           [this](Range some, auto const& by_rest) { rest.disk->look(rest.flat, rest.state, some, by_rest); });
}

void HeldState::edit(Range elements, OffloadedStates::Use const& use) const {
  use_each(*this, elements, use,
           [this](Range some, auto const& by_rest) { rest.disk->edit(rest.flat, rest.state, some, by_rest); });
}

HeldState held_of_updated(Memory const& memory, FlatId flat, std::size_t state) {
  auto const precision = memory.precision(flat);
  if (state == 0 && !precision.has_master()) {  // the optimizer's elements are a subset of the parameters
    auto const optimized = memory.optimized(flat);
    auto const before = optimized.begin - memory.held(memory.flat(flat).trainable, memory.parameters_of(flat)).begin;
    return held_of_parameters(memory, flat, true).part(before, optimized.count());
  }
  auto const at = memory.addresses(flat);
  return {.data = state == 0 ? at.master : at.states[state - 1],
          .dtype = state == 0 ? precision.master : precision.states,
          .in_memory_count = memory.in_memory_count(flat),
          .rest = {memory.offloaded_states(), flat, state, 0}};
}

void round_parameters(Memory const& memory, FlatId flat, bool trainable, std::byte* to, void const* source,
                      Dtype source_dtype, std::int64_t count) {
  auto const dtype = memory.precision(flat).compute;
  memory.kernels().convert(memory.compute(), to, dtype, source, source_dtype, count);
  if (trainable && gather_codec_of(memory.flat(flat), memory.request().settings) != Codec::none) {
    auto const blocks = (count + codec_block_count - 1) / codec_block_count;
    memory.kernels().quantise(memory.compute(), {to, dtype, blocks * codec_block_count});
  }
}

HeldState held_of_parameters(Memory const& memory, FlatId flat, bool trainable) {
  auto const& unit = memory.flat(flat);
  auto const placement = memory.parameters_of(flat);
  auto const dtype = memory.precision(flat).compute;
  auto const rest = memory.home_of_parameters(flat).offloaded(flat, trainable);
  auto* const data = memory.addresses(flat).parameters;
  if (data == nullptr) {
    return {.dtype = dtype, .rest = rest};
  }
  auto const of_trainable = memory.held(unit.trainable, placement).count();
  return {.data = data + (trainable ? 0 : of_trainable * bytes_of(dtype)),
          .dtype = dtype,
          .in_memory_count = trainable ? of_trainable : memory.held(unit.frozen, placement).count(),
          .rest = rest};
}

}  // namespace zeroth::shard
