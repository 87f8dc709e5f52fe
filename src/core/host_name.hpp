// SPDX-License-Identifier: Apache-2.0
/// The name of this machine.
#pragma once
#include <string>

namespace zeroth {

/// Returns "an unnamed machine" if the system does not report a name.
[[nodiscard]] std::string host_name();

}  // namespace zeroth
