// SPDX-License-Identifier: Apache-2.0
/// Helpers that make flight records.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// Copies `from`, truncated to fit.
template <std::size_t N>
void copy_name(char (&to)[N], std::string_view from) noexcept {
  auto* const end = std::copy_n(from.begin(), std::min(from.size(), N - 1), to);
  std::fill(end, to + N, '\0');
}

[[nodiscard]] inline Record make_record(std::string_view communicator, std::uint64_t sequence, Label const& label,
                                        Collective const& collective) noexcept {
  Record record;
  copy_name(record.what, name_of(collective.operation));
  copy_name(record.purpose, label.purpose);
  copy_name(record.unit, label.unit);
  copy_name(record.communicator, communicator);
  record.sequence = sequence;
  record.count = collective.count;
  record.dtype = collective.dtype;
  return record;
}

}  // namespace zeroth::comm
