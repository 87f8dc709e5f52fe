// SPDX-License-Identifier: Apache-2.0
/// In place of src/device/nccl.cpp: the functions that are linked in.
#include "device/nccl_library.hpp"
#include "support/fake_nccl/clique.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {

Nccl const& nccl() {
#define ZEROTH_NCCL_LINKED(name, function) &::function,
  static constexpr Nccl late{ZEROTH_NCCL_FUNCTIONS(ZEROTH_NCCL_LINKED) false};
  static constexpr Nccl early{ZEROTH_NCCL_FUNCTIONS(ZEROTH_NCCL_LINKED) true};
#undef ZEROTH_NCCL_LINKED
  if (auto const problem = nccl_version_problem(testing::fake_nccl::World::get().version); !problem.empty()) {
    throw SystemError{problem};
  }
  return testing::fake_nccl::World::get().was_there ? early : late;
}

}  // namespace zeroth::device
