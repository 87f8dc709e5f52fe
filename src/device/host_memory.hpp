// SPDX-License-Identifier: Apache-2.0
/// Memory of the host, for devices that need no more of it than that.
#pragma once
#include "zeroth/device/device.hpp"

namespace zeroth::device {

class HostMemory final : public Memory {
 public:
  explicit HostMemory(std::int64_t bytes);
  ~HostMemory() override;
};

}  // namespace zeroth::device
