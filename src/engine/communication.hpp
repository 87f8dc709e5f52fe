// SPDX-License-Identifier: Apache-2.0
/// The table of comms_logger.
#pragma once
#include <string>

#include "engine/span_sums.hpp"
#include "shard/call_log.hpp"

namespace zeroth::engine {

/// One line per collective and unit: count, bytes, milliseconds and bandwidths. If one span covers several collectives,
/// the first has the time of all.
[[nodiscard]] std::string communication_table(shard::CallLog const& calls, SpanSums const& times);

}  // namespace zeroth::engine
