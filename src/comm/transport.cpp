// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/transport.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

struct Named {
  Transport transport;
  std::string_view name;
};
constexpr std::array table{Named{Transport::local, "local"}, Named{Transport::mpi, "mpi"},
                           Named{Transport::nccl, "nccl"}, Named{Transport::tcp, "tcp"}};

}  // namespace

std::string_view name_of(Transport transport) noexcept {
  auto const found =
      std::find_if(table.begin(), table.end(), [transport](Named const& each) { return each.transport == transport; });
  return found == table.end() ? "?" : found->name;
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  std::transform(table.begin(), table.end(), std::back_inserter(names),
                 [](Named const& each) { return std::string{each.name}; });
  return names;
}

Transport transport_named(std::string_view name) {
  auto const found = std::find_if(table.begin(), table.end(), [name](Named const& each) { return each.name == name; });
  if (found == table.end()) {
    throw ConfigError{fmt::format("transport is \"{}\"; allowed are {}", name, fmt::join(transport_names(), ", "))};
  }
  return found->transport;
}

}  // namespace zeroth::comm
