// SPDX-License-Identifier: Apache-2.0
/// Memory categories, and accounting by category.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Bytes by category. The plan, the ledger and the report all use these names.
struct MemoryBytes {
  /// Parameters as the math reads them, unsharded or this rank's shard. If they have the master's dtype, they are the
  /// master as well.
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;  ///< Gradients as backward writes them and the optimizer reads them, unsharded or a
                               ///< shard.
  std::int64_t optimizer = 0;  ///< Optimizer states, and the master if it is separate from the parameters.
  std::int64_t slots = 0;      ///< Gathered parameters and full gradients of the few units in use.
  std::int64_t scratch = 0;    ///< Conversions, partial sums, communicator staging, scalars.
  /// The sum over all categories.
  [[nodiscard]] constexpr std::int64_t total() const noexcept {
    return parameters + gradients + optimizer + slots + scratch;
  }
  friend bool operator==(MemoryBytes const&, MemoryBytes const&) = default;
};

namespace device {

/// The members of MemoryBytes, for loops.
enum class Category : std::uint8_t { parameters, gradients, optimizer, slots, scratch };
/// All categories, in the order of tables.
inline constexpr std::array categories{Category::parameters, Category::gradients, Category::optimizer, Category::slots,
                                       Category::scratch};
/// The category's name: "parameters".
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Category category) noexcept;
/// The member of `bytes` for `category`.
[[nodiscard]] ZEROTH_EXPORT std::int64_t& bytes_in(MemoryBytes& bytes, Category category) noexcept;

/// Current and peak bytes on one rank's device, by category. One thread writes.
class ZEROTH_EXPORT Ledger {
 public:
  void add(Category category, std::int64_t bytes) noexcept;                 ///< Counts an allocation of `bytes`.
  void remove(Category category, std::int64_t bytes) noexcept;              ///< Counts `bytes` as freed.
  [[nodiscard]] MemoryBytes const& live() const noexcept { return live_; }  ///< Current bytes.
  [[nodiscard]] MemoryBytes const& peak() const noexcept { return peak_; }  ///< Peak of each category by itself.

 private:
  MemoryBytes live_, peak_;
};

}  // namespace device
}  // namespace zeroth
