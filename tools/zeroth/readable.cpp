// SPDX-License-Identifier: Apache-2.0
#include "readable.hpp"

#include <fmt/format.h>

namespace zeroth::tools {
namespace {

constexpr Scale gib{"GiB", 0x1p30};
constexpr Scale mib{"MiB", 0x1p20};
constexpr Scale kib{"KiB", 0x1p10};

}  // namespace

std::string grouped(std::int64_t number) {
  auto text = std::to_string(number);
  for (auto at = std::ssize(text) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

std::string counted(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", grouped(number), what, number == 1 ? "" : "s");
}

Scale scale_of_bytes(double least) noexcept { return least >= gib.one ? gib : (least >= mib.one ? mib : kib); }

Scale scale_of_ms(double least) noexcept {
  if (least >= 10'000) {
    return {"s", 1000};
  }
  return least >= 1 ? Scale{"ms", 1} : Scale{"us", 1e-3};
}

std::string in(Scale const& scale, double amount) { return fmt::format("{:.2f}", amount / scale.one); }

std::string in(Scale const& scale, std::int64_t amount) { return in(scale, static_cast<double>(amount)); }

std::string left_of(Scale const& scale, std::int64_t left) {
  return left >= 0 ? in(scale, left) : in(scale, -left) + " short";
}

std::string readable_bytes(std::int64_t bytes) {
  auto const amount = static_cast<double>(bytes);
  if (amount < kib.one) {
    return fmt::format("{} B", bytes);
  }
  auto const scale = scale_of_bytes(amount);
  return fmt::format("{} {}", in(scale, amount), scale.name);
}

std::string about_groups(GroupSettings const& groups) {
  if (groups.count == 1) {
    return {};
  }
  auto const* const what = groups.cut_states       ? "all sharded states are sharded within groups"
                           : groups.cut_parameters ? "parameters are sharded within groups"
                                                   : "groups";
  return fmt::format(", {} of {}{}", what, groups.size, groups.two_level_sums ? " with sums of their own" : "");
}

}  // namespace zeroth::tools
