// SPDX-License-Identifier: Apache-2.0
#include "zeroth/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "zeroth/core/error.hpp"

namespace zeroth::device {

void Device::compute_on(StreamRef /*stream*/) {
  ZEROTH_EXPECTS(false, fmt::format("device {} computes on the calling thread; it takes no stream", name()));
}

std::string Device::why_no_graphs() { return fmt::format("the device {} has no graphs", name()); }

void Device::begin_capture(std::span<Stream* const> /*streams*/) { throw ContractError{why_no_graphs()}; }

std::unique_ptr<Graph> Device::end_capture() { throw ContractError{why_no_graphs()}; }

std::optional<std::size_t> Device::first_done(std::span<Event const* const> events) const {
  auto const found = std::ranges::find_if(events, [](Event const* event) { return event->done(); });
  return found == events.end() ? std::nullopt : std::optional{static_cast<std::size_t>(found - events.begin())};
}

std::unique_ptr<Storage> Device::make_storage(StorageOptions const& /*options*/) {
  ZEROTH_EXPECTS(false, fmt::format("device {} does not keep data on a disk", name()));
  return nullptr;
}

std::unique_ptr<Storage> Device::make_host_storage(std::int64_t bytes, std::string_view purpose,
                                                   std::string_view /*contents*/) {
  ZEROTH_EXPECTS(false, fmt::format("make_host_storage({}, \"{}\"): the memory of device {} is the host's", bytes,
                                    purpose, name()));
  return nullptr;
}

}  // namespace zeroth::device
