// SPDX-License-Identifier: Apache-2.0
#include "comm/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace zeroth::comm::conformance {
namespace {

constexpr std::int64_t filler_count = 9;  // odd, so that buffers start at any multiple of their element's size
constexpr std::byte filler{0x5a};

/// The table of Collective, in place; `count` is not set yet.
Trial::Layout shape_of(Probe const& probe, int rank, int world) {
  std::int64_t const count = probe.count;
  std::int64_t const all = world * count;
  std::int64_t const mine = rank * count;
  bool const root = rank == probe.root;
  switch (probe.operation) {
    case Operation::all_reduce: return {count, count, 0, 0};
    case Operation::all_gather: return {count, all, mine, 0};
    case Operation::reduce_scatter: return {all, count, 0, mine};
    case Operation::broadcast: return {root ? count : 0, count, 0, 0};
    case Operation::reduce: return {count, root ? count : 0, 0, 0};
    case Operation::gather: return {count, root ? all : 0, root ? mine : 0, 0};
    case Operation::scatter: return {root ? all : 0, count, 0, root ? mine : 0};
    case Operation::all_to_all: return {all, all, 0, 0};
    default: return {0, 0, 0, 0};
  }
}

Trial::Layout layout_of(Probe const& probe, int rank, int world) {
  auto layout = shape_of(probe, rank, world);
  if (probe.place == Place::out_of_place) {
    layout.input_at = 0;
    layout.output_at = layout.inputs + filler_count;
  }
  layout.input_at += filler_count;
  layout.output_at += filler_count;
  layout.count = std::max(layout.input_at + layout.inputs, layout.output_at + layout.outputs) + filler_count;
  return layout;
}

bool adds(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter || operation == Operation::reduce;
}

}  // namespace

Trial::Trial(Workspace& workspace, Probe const& probe, int rank, int world, Source const& source)
    : probe_{probe},
      rank_{rank},
      world_{world},
      layout_{layout_of(probe, rank, world)},
      block_{workspace, contents(source)} {
  auto const pointer = [&](std::int64_t at) { return block_.data() + at * bytes_of(probe.dtype); };
  bool const in_place = probe.place == Place::in_place;
  collective_ = {probe.operation,
                 layout_.inputs > 0 || in_place ? pointer(layout_.input_at) : nullptr,
                 layout_.outputs > 0 || in_place ? pointer(layout_.output_at) : nullptr,
                 probe.count,
                 probe.dtype,
                 probe.root};
}

std::vector<std::byte> Trial::contents(Source const& source) {
  std::vector<std::byte> block(static_cast<std::size_t>(layout_.count * bytes_of(probe_.dtype)), filler);
  for (std::int64_t i = 0; i < layout_.inputs; ++i) {
    put(block, layout_.input_at + i,
        adds(probe_.operation) ? source.element(probe_.dtype, rank_, i) : pattern(probe_.dtype, rank_, i));
  }
  expected_ = block;
  for (std::int64_t i = 0; i < layout_.outputs; ++i) {
    put(expected_, layout_.output_at + i, expected(i, source));
  }
  return block;
}

Bits Trial::expected(std::int64_t index, Source const& source) const {
  std::int64_t const count = probe_.count;
  int const block = static_cast<int>(index / count);
  switch (probe_.operation) {
    case Operation::all_reduce:
    case Operation::reduce: return source.sum(probe_.dtype, world_, index);
    case Operation::reduce_scatter: return source.sum(probe_.dtype, world_, rank_ * count + index);
    case Operation::all_gather:
    case Operation::gather: return pattern(probe_.dtype, block, index % count);
    case Operation::broadcast: return pattern(probe_.dtype, probe_.root, index);
    case Operation::scatter: return pattern(probe_.dtype, probe_.root, rank_ * count + index);
    case Operation::all_to_all: return pattern(probe_.dtype, block, rank_ * count + index % count);
    default: return 0;
  }
}

void Trial::put(std::vector<std::byte>& block, std::int64_t at, Bits bits) const {
  auto const bytes = static_cast<std::size_t>(bytes_of(probe_.dtype));
  std::memcpy(block.data() + static_cast<std::size_t>(at) * bytes, &bits, bytes);  // little endian
}

Bits Trial::get(std::vector<std::byte> const& block, std::int64_t at) const {
  auto const bytes = static_cast<std::size_t>(bytes_of(probe_.dtype));
  Bits bits = 0;
  std::memcpy(&bits, block.data() + static_cast<std::size_t>(at) * bytes, bytes);
  return bits;
}

std::string Trial::problem() const {
  auto const block = block_.read();
  auto const differs = std::mismatch(block.begin(), block.end(), expected_.begin());
  if (differs.first == block.end()) {
    return {};
  }
  auto const at = (differs.first - block.begin()) / bytes_of(probe_.dtype);
  return fmt::format("rank {} of {}, {} of {} {}{}, root {}: element {} of the output is {:#x} and should be {:#x}",
                     rank_, world_, name_of(probe_.operation), probe_.count, name_of(probe_.dtype),
                     probe_.place == Place::in_place ? " in place" : "", probe_.root, at - layout_.output_at,
                     get(block, at), get(expected_, at));
}

}  // namespace zeroth::comm::conformance
