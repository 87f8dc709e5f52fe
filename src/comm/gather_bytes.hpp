// SPDX-License-Identifier: Apache-2.0
/// Bytes of any length from all ranks.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::comm {

/// How ranks gather: their communicator, and what its collectives run on.
struct GatherOn {
  Communicator& communicator;
  device::Device& device;
  device::Stream& stream;
  std::string_view purpose;  ///< For messages.
};

/// Returns the `bytes` of each rank, in rank order: on every rank, or on rank `root` alone if there is one. Collective;
/// waits. Cost: an all-gather of lengths, and messages to `root`, or an all-gather of the greatest length.
[[nodiscard]] std::vector<std::string> gather_bytes(GatherOn const& on, std::string_view bytes,
                                                    std::optional<int> root = std::nullopt);

}  // namespace zeroth::comm
