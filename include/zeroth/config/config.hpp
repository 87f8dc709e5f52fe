/// The stage file: DeepSpeed's keys and a "zeroth" section.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "zeroth/config/settings.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth {

namespace detail {
struct ConfigState;
}

/// A stage file. Immutable, and shared by threads. Makers throw one ConfigError that lists every problem.
class Config {
 public:
  [[nodiscard]] static Config from_file(std::filesystem::path const& path);
  [[nodiscard]] static Config from_json(std::string_view text);
  /// A copy in which what `changes`, a JSON object, says takes the place of what the file says: {"zero_optimization":
  /// {"stage": 2}}. What neither says is derived again. Messages name this file.
  [[nodiscard]] Config with(std::string_view changes) const;
  [[nodiscard]] Dtype compute_dtype() const noexcept;   ///< Of the parameters that guards hand out.
  [[nodiscard]] Dtype gradient_dtype() const noexcept;  ///< Of the memory that backward writes.
  [[nodiscard]] std::string to_string() const;          ///< Every value with its origin: file, derived or default.
  [[nodiscard]] std::string to_json() const;            ///< The same as one JSON object: path -> {value, origin}.
  /// Everything resolved for `world` ranks. Throws ConfigError if the batch sizes contradict it. `largest_unit_count`
  /// (elements) is what "auto" bucket and prefetch sizes become.
  [[nodiscard]] Settings settings(int world, std::int64_t largest_unit_count) const;

 private:
  explicit Config(std::shared_ptr<detail::ConfigState const> state) noexcept;
  std::shared_ptr<detail::ConfigState const> state_;
};

}  // namespace zeroth
