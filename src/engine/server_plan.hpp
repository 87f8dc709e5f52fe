// SPDX-License-Identifier: Apache-2.0
/// The plans of workers and parameter servers.
#pragma once
#include "engine/planning.hpp"

namespace zeroth::engine {

/// The number of workers among `world` ranks; all of them without servers. Throws ConfigError if there is none.
[[nodiscard]] int worker_ranks(Config const& config, int world);

/// The blueprint of a worker, or of a server. `workers` is that of as many ranks without servers.
[[nodiscard]] Blueprint with_servers(Blueprint workers, model::Description const& model, bool serves);

/// The reason why parameter servers are not possible on such devices. Empty if they are, or if the file asks for none.
[[nodiscard]] std::string refused_servers(Settings const& settings, comm::Transport transport, DeviceKind device);

}  // namespace zeroth::engine
