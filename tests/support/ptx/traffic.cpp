// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/traffic.hpp"

#include <algorithm>
#include <bit>

namespace zeroth::testing::ptx {
namespace {

constexpr std::uint64_t word = 4, banks = 32, sector = 32;

double ratio(std::uint64_t taken, std::uint64_t least) {
  return least == 0 ? 0 : static_cast<double>(taken) / static_cast<double>(least);
}

/// The words that each bank serves, of lanes that are served together.
class Banks {
 public:
  void add(std::uint64_t address, std::size_t bytes) {
    for (std::uint64_t number = address / word; number * word < address + bytes; ++number) {
      auto const bank = static_cast<std::size_t>(number % banks);
      auto* const words = words_[bank].data();
      if (std::find(words, words + count_[bank], number) == words + count_[bank]) {
        words[count_[bank]++] = number;
        most_ = std::max<std::uint64_t>(most_, count_[bank]);
      }
    }
  }
  /// As many passes as the bank with the most words has words.
  [[nodiscard]] std::uint64_t passes() const { return most_; }

 private:
  std::array<std::size_t, banks> count_{};
  std::array<std::array<std::uint64_t, warp_lanes>, banks> words_{};  // a lane has at most one in each bank
  std::uint64_t most_ = 0;
};

std::uint64_t rounded_up(std::uint64_t count, std::uint64_t of) { return (count + of - 1) / of; }

}  // namespace

Traffic& Traffic::operator+=(Traffic const& other) {
  bank_passes += other.bank_passes;
  least_bank_passes += other.least_bank_passes;
  sectors += other.sectors;
  least_sectors += other.least_sectors;
  return *this;
}
double Traffic::banks() const { return ratio(bank_passes, least_bank_passes); }
double Traffic::global() const { return ratio(sectors, least_sectors); }

void count_shared(Traffic& traffic, Addresses const& at, Lanes lanes, std::size_t bytes) {
  auto const together = static_cast<int>(banks * word / std::max<std::size_t>(bytes, word));
  for (int first = 0; first < warp_lanes; first += together) {
    Lanes const group = lanes >> first & (together == warp_lanes ? all_lanes : (Lanes{1} << together) - 1);
    if (group == 0) {
      continue;
    }
    // The usual case: lanes access different parts of a row of all banks.
    Lanes parts = 0;
    if (bytes >= word) {
      for_each_lane(group, [&](int lane) {
        parts |= Lanes{1} << at[static_cast<std::size_t>(first + lane)] / bytes % static_cast<std::uint64_t>(together);
      });
    }
    std::uint64_t passes = 1;
    if (std::popcount(parts) != std::popcount(group)) {
      Banks served;
      for_each_lane(group, [&](int lane) { served.add(at[static_cast<std::size_t>(first + lane)], bytes); });
      passes = served.passes();
    }
    traffic.bank_passes += passes;
    ++traffic.least_bank_passes;
  }
}

void count_global(Traffic& traffic, Addresses const& at, Lanes lanes, std::size_t bytes) {
  std::array<std::uint64_t, warp_lanes> starts{};
  auto* const first = starts.data();
  auto* end = first;
  bool in_order = true;
  for_each_lane(lanes, [&](int lane) {
    auto const address = at[static_cast<std::size_t>(lane)];
    in_order &= end == first || *(end - 1) < address;
    *end++ = address;
  });
  if (!in_order) {
    std::sort(first, end);
    end = std::unique(first, end);
  }
  traffic.least_sectors += rounded_up(static_cast<std::uint64_t>(end - first) * bytes, sector);
  for (auto const* address = first; address != end; ++address) {  // an aligned access is in one sector
    traffic.sectors += address == first || *address / sector != *(address - 1) / sector ? 1U : 0U;
  }
}

}  // namespace zeroth::testing::ptx
