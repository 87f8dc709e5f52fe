// SPDX-License-Identifier: Apache-2.0
/// A log of a rank's transactions on a communicator, so that every transport can report ranks that diverged.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/hash.hpp"
#include "shard/layout.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// A hash of all transactions, and a list of the last ones. Costs a few integer operations each, in preallocated
/// memory.
class TransactionLog {
 public:
  struct Entry {
    std::string_view what;
    std::optional<FlatId> unit;
    comm::Operation operation = comm::Operation::barrier;
    std::int64_t count = 0;  ///< Elements, over all its collectives.
    std::uint64_t hash = 0;  ///< Covers this one and all before.
  };
  static constexpr std::size_t most_entries = 512;

  explicit TransactionLog(comm::Communicator const& communicator) noexcept : communicator_{&communicator} {}

  [[nodiscard]] comm::Communicator const& communicator() const noexcept { return *communicator_; }
  void add(std::string_view what, std::optional<FlatId> unit, std::span<comm::Collective const> collectives) noexcept {
    Entry entry{.what = what, .unit = unit};
    entry.hash = mix(hash_, unit ? index_of(*unit) : ~std::uint64_t{0});
    for (auto const& each : collectives) {
      entry.operation = each.operation;
      entry.count += each.count;
      entry.hash =
          mix(entry.hash, static_cast<std::uint64_t>(each.count) * 16 + static_cast<std::uint64_t>(each.operation));
    }
    hash_ = entry.hash;
    last_[static_cast<std::size_t>(count_++) % most_entries] = entry;
  }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Only for the last `most_entries`. The first one has number 0.
  [[nodiscard]] Entry const& entry(std::int64_t number) const noexcept {
    return last_[static_cast<std::size_t>(number) % most_entries];
  }

 private:
  comm::Communicator const* communicator_;
  std::uint64_t hash_ = 0;
  std::int64_t count_ = 0;
  std::array<Entry, most_entries> last_{};
};

}  // namespace zeroth::shard
