// SPDX-License-Identifier: Apache-2.0
/// What memory is for, and the book that is kept of it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Bytes by purpose. The plan, the ledger and the report all use these words.
struct MemoryBytes {
  /// What the math reads, whole or this rank's shard. In the master's dtype it is the master as well.
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;  ///< What backward writes and the optimizer reads, whole or shard.
  std::int64_t optimizer = 0;  ///< m, v, and the master where the parameters are not the master.
  std::int64_t slots = 0;      ///< Gathered parameters and full gradients of the few units in use.
  std::int64_t scratch = 0;    ///< Conversions, partial sums, communicator staging, scalars.
  /// Of all purposes.
  [[nodiscard]] constexpr std::int64_t total() const noexcept {
    return parameters + gradients + optimizer + slots + scratch;
  }
  friend bool operator==(MemoryBytes const&, MemoryBytes const&) = default;
};

namespace device {

/// The fields of MemoryBytes, for loops over them.
enum class Category : std::uint8_t { parameters, gradients, optimizer, slots, scratch };
/// All of them, in the order of tables.
inline constexpr std::array categories{Category::parameters, Category::gradients, Category::optimizer, Category::slots,
                                       Category::scratch};
/// "parameters"
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Category category) noexcept;
/// The field of `bytes` that `category` names.
[[nodiscard]] ZEROTH_EXPORT std::int64_t& bytes_in(MemoryBytes& bytes, Category category) noexcept;

/// Live and peak bytes of one rank's device by category. One thread writes.
class ZEROTH_EXPORT Ledger {
 public:
  void add(Category category, std::int64_t bytes) noexcept;                 ///< `bytes` more are held.
  void remove(Category category, std::int64_t bytes) noexcept;              ///< `bytes` of them were given back.
  [[nodiscard]] MemoryBytes const& live() const noexcept { return live_; }  ///< Held now.
  [[nodiscard]] MemoryBytes const& peak() const noexcept {
    return peak_;
  }  ///< The most of each category, at whatever time.

 private:
  MemoryBytes live_, peak_;
};

}  // namespace device
}  // namespace zeroth
