/// What memory is for, and the book that is kept of it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zeroth {

/// Bytes by purpose. The plan, the ledger and the report all use these words.
struct MemoryBytes {
  /// What the math reads, whole or this rank's shard. In the master's dtype it is the master as well.
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;  ///< What backward writes and the optimizer reads, whole or shard.
  std::int64_t optimizer = 0;  ///< m, v, and the master where the parameters are not the master.
  std::int64_t slots = 0;      ///< Gathered parameters and full gradients of the few units in use.
  std::int64_t scratch = 0;    ///< Conversions, partial sums, communicator staging, scalars.
  [[nodiscard]] constexpr std::int64_t total() const noexcept {
    return parameters + gradients + optimizer + slots + scratch;
  }
  friend bool operator==(MemoryBytes const&, MemoryBytes const&) = default;
};

namespace device {

enum class Category : std::uint8_t { parameters, gradients, optimizer, slots, scratch };
inline constexpr std::array categories{Category::parameters, Category::gradients, Category::optimizer, Category::slots,
                                       Category::scratch};
[[nodiscard]] std::string_view name_of(Category category) noexcept;
[[nodiscard]] std::int64_t& bytes_in(MemoryBytes& bytes, Category category) noexcept;

/// Live and peak bytes of one rank's device by category. One thread writes.
class Ledger {
 public:
  void add(Category category, std::int64_t bytes) noexcept;
  void remove(Category category, std::int64_t bytes) noexcept;
  [[nodiscard]] MemoryBytes const& live() const noexcept { return live_; }
  [[nodiscard]] MemoryBytes const& peak() const noexcept { return peak_; }

 private:
  MemoryBytes live_, peak_;
};

}  // namespace device
}  // namespace zeroth
