// SPDX-License-Identifier: Apache-2.0
/// This machine and this build, in words: what a report of a fault needs.
#pragma once
#include <string>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// One line of a report.
struct EnvironmentFact {
  std::string name;   ///< Lower case, the same in every release: "processor", "transports".
  std::string value;  ///< For people.
};

/// Versions, how the library was built and with what, the processor and its instructions, memory that is left, GPUs or
/// why there are none, their driver, NCCL, transports, the launcher that started this process. Starts nothing, and
/// takes no part in a job. What cannot be found out is said in the value. Any thread.
[[nodiscard]] ZEROTH_EXPORT std::vector<EnvironmentFact> environment();

}  // namespace zeroth
