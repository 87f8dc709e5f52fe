// SPDX-License-Identifier: Apache-2.0
#include "core/host_name.hpp"

#include <unistd.h>

#include <array>

namespace zeroth {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed machine";
}

}  // namespace zeroth
