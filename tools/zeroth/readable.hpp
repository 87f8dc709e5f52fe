// SPDX-License-Identifier: Apache-2.0
/// Numbers as people read them.
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

/// A unit for a column of numbers: one that suits the least of them.
struct Scale {
  std::string_view name;
  double one = 1;  ///< In bytes, or in milliseconds.
};
[[nodiscard]] Scale scale_of_bytes(double least) noexcept;  ///< KiB, MiB or GiB.
[[nodiscard]] Scale scale_of_ms(double least) noexcept;     ///< us, ms or s.
/// With two digits behind the point, without the unit.
[[nodiscard]] std::string in(Scale const& scale, double amount);
[[nodiscard]] std::string in(Scale const& scale, std::int64_t amount);
/// "3.50", or "3.50 short" of what is missing.
[[nodiscard]] std::string left_of(Scale const& scale, std::int64_t left);

/// "1.50 GiB", "12.00 MiB" or "100 B".
[[nodiscard]] std::string readable_bytes(std::int64_t bytes);

/// ", parameters are cut among groups of 8 with sums of their own"; empty where nothing is done by groups.
[[nodiscard]] std::string about_groups(GroupSettings const& groups);

}  // namespace zeroth::tools
