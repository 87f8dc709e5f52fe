// SPDX-License-Identifier: Apache-2.0
/// What this machine is called.
#pragma once
#include <string>

namespace zeroth {

/// "an unnamed machine" where the system does not say.
[[nodiscard]] std::string host_name();

}  // namespace zeroth
