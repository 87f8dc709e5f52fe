// SPDX-License-Identifier: Apache-2.0
/// Numbers in readable form.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <zeroth/config/settings.hpp>

namespace zeroth::tools {

/// 1234567 as 1,234,567.
[[nodiscard]] std::string grouped(std::int64_t number);
/// "1 rank", "2 ranks", "1,024 ranks".
[[nodiscard]] std::string counted(std::int64_t number, std::string_view what);

/// A common unit for a column of numbers, chosen for the smallest.
struct Scale {
  std::string_view name;
  double one = 1;  ///< In bytes, or in milliseconds.
};
[[nodiscard]] Scale scale_of_bytes(double least) noexcept;  ///< KiB, MiB or GiB.
[[nodiscard]] Scale scale_of_ms(double least) noexcept;     ///< us, ms or s.
/// With two digits after the decimal point, without the unit.
[[nodiscard]] std::string in(Scale const& scale, double amount);
[[nodiscard]] std::string in(Scale const& scale, std::int64_t amount);
/// "3.50", or "3.50 short" if `left` is negative.
[[nodiscard]] std::string left_of(Scale const& scale, std::int64_t left);

/// "1.50 GiB", "12.00 MiB" or "100 B".
[[nodiscard]] std::string readable_bytes(std::int64_t bytes);

/// ", parameters are sharded within groups of 8 with sums of their own"; empty if groups are not used.
[[nodiscard]] std::string about_groups(GroupSettings const& groups);

}  // namespace zeroth::tools
