// SPDX-License-Identifier: Apache-2.0
/// Host memory for devices without further requirements.
#pragma once
#include "zeroth/device/device.hpp"

namespace zeroth::device {

class HostMemory final : public Memory {
 public:
  explicit HostMemory(std::int64_t bytes);
  ~HostMemory() override;
};

}  // namespace zeroth::device
