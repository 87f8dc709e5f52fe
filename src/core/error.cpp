// SPDX-License-Identifier: Apache-2.0
#include "zeroth/core/error.hpp"

#include <fmt/format.h>

#include <string_view>

namespace zeroth {

RankContext& this_rank() noexcept {
  thread_local RankContext context;
  return context;
}

std::string rank_prefix() {
  auto const& who = this_rank();
  if (who.rank < 0) {
    return {};
  }
  return fmt::format("[rank {}/{}{}{}] ", who.rank, who.world, who.device.empty() ? "" : " ", who.device);
}

namespace detail {

void throw_contract(char const* condition, std::string const& why, char const* file, int line) {
  std::string_view const path{file};
  throw ContractError{fmt::format("{} ({}:{}: {})", why, path.substr(path.find_last_of('/') + 1), line, condition)};
}

}  // namespace detail
}  // namespace zeroth
