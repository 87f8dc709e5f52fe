// SPDX-License-Identifier: Apache-2.0
/// Transports by the names that people give, on command lines and in files. name_of() is the way back.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth::comm {

/// "local", "mpi", "nccl", "tcp": of all transports, in the order of Transport, whichever of them the library was built
/// with.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::string> transport_names();
/// The transport of that name. Throws ConfigError, which lists the names, for another.
[[nodiscard]] ZEROTH_EXPORT Transport transport_named(std::string_view name);

}  // namespace zeroth::comm
