// SPDX-License-Identifier: Apache-2.0
#include "zeroth/comm/exit_code.hpp"

#include "zeroth/core/error.hpp"

namespace zeroth {

int exit_code_of(std::exception const& error) noexcept {
  bool const is_wrong = dynamic_cast<ConfigError const*>(&error) != nullptr ||
                        dynamic_cast<ContractError const*>(&error) != nullptr ||
                        dynamic_cast<DamagedError const*>(&error) != nullptr;
  return is_wrong ? ExitCode::wrong : ExitCode::failed;
}

}  // namespace zeroth
