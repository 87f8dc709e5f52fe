// SPDX-License-Identifier: Apache-2.0
/// Memory that a stuck disk may still access.
#pragma once
#include <memory>

#include "zeroth/device/device.hpp"

namespace zeroth::device {

/// Leaks memory that a stuck disk may still write to when it answers after all.
void keep_for_ever(std::unique_ptr<Memory> memory);

}  // namespace zeroth::device
