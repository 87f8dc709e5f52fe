// SPDX-License-Identifier: Apache-2.0
/// Replaces src/device/nccl.cpp by the functions that are linked in.
#include "device/nccl_library.hpp"
#include "support/fake_nccl/clique.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {

Nccl const& nccl() {
#define ZEROTH_NCCL_LINKED(name, function) &::function,
  thread_local Nccl linked{ZEROTH_NCCL_FUNCTIONS(ZEROTH_NCCL_LINKED)};
#undef ZEROTH_NCCL_LINKED
  auto const& world = testing::fake_nccl::World::get();
  linked.version = world.version;
  linked.was_there = world.was_there;
  if (auto const problem = nccl_version_problem(linked.version); !problem.empty()) {
    throw SystemError{problem};
  }
  return linked;
}

}  // namespace zeroth::device
