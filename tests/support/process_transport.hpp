// SPDX-License-Identifier: Apache-2.0
/// The transport of tests whose ranks are processes: one program works under all launchers.
#pragma once
#include <cstdlib>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::testing {

/// mpi under mpirun, tcp under `zeroth run --transport tcp`.
[[nodiscard]] inline comm::Transport process_transport() {
  bool const is_tcp = std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
  return is_tcp ? comm::Transport::tcp : comm::Transport::mpi;
}

}  // namespace zeroth::testing
