// SPDX-License-Identifier: Apache-2.0
/// A description of this machine and this build, for fault reports.
#pragma once
#include <string>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// One line of the description.
struct EnvironmentFact {
  std::string name;   ///< Lower case, and stable between releases: "processor", "transports".
  std::string value;  ///< Free text for people.
};

/// Versions, how and with what the library was built, the processor and its instruction sets, free memory, GPUs or why
/// there are none, their driver, NCCL, transports, and the launcher of this process. Starts nothing and does not join a
/// job. If something cannot be determined, its value says so. Any thread.
[[nodiscard]] ZEROTH_EXPORT std::vector<EnvironmentFact> environment();

}  // namespace zeroth
