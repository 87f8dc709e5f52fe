// SPDX-License-Identifier: Apache-2.0
#include "shard/call_log.hpp"

#include <algorithm>

#include "zeroth/core/dtype.hpp"

namespace zeroth::shard {

void CallLog::add(std::string_view what, std::string_view unit, std::span<comm::Collective const> collectives,
                  int world) {
  if (collectives.empty()) {
    return;
  }
  auto const operation = collectives.front().operation;
  auto const same = [&](Entry const& entry) {
    return entry.what == what && entry.operation == operation && entry.unit == unit;
  };
  auto found = std::ranges::find_if(entries_, same);
  if (found == entries_.end()) {
    found = entries_.insert(entries_.end(), Entry{.what = what, .unit = unit, .operation = operation});
  }
  ++found->count;
  bool const is_message = operation == comm::Operation::send || operation == comm::Operation::receive;
  bool const reduces_all = operation == comm::Operation::all_reduce;
  auto const others = static_cast<double>(world - 1) / world;
  for (auto const& each : collectives) {
    auto const bytes = (reduces_all ? 1 : world) * each.count * bytes_of(each.dtype);
    found->bytes += bytes;
    found->sent +=
        is_message ? static_cast<double>(bytes) : (reduces_all ? 2 : 1) * others * static_cast<double>(bytes);
  }
}

}  // namespace zeroth::shard
