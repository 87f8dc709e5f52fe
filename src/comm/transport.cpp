// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/transport.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {

std::string_view name_of(Transport transport) noexcept {
  auto const found = std::find_if(transport_table.begin(), transport_table.end(),
                                  [transport](TransportTraits const& each) { return each.transport == transport; });
  return found == transport_table.end() ? "?" : found->name;
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  std::transform(transport_table.begin(), transport_table.end(), std::back_inserter(names),
                 [](TransportTraits const& each) { return std::string{each.name}; });
  return names;
}

Transport transport_named(std::string_view name) {
  auto const found = std::find_if(transport_table.begin(), transport_table.end(),
                                  [name](TransportTraits const& each) { return each.name == name; });
  if (found == transport_table.end()) {
    throw ConfigError{fmt::format("transport is \"{}\"; allowed are {}", name, fmt::join(transport_names(), ", "))};
  }
  return found->transport;
}

}  // namespace zeroth::comm
