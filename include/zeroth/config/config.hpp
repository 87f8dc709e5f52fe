// SPDX-License-Identifier: Apache-2.0
/// The stage file: DeepSpeed's keys and a "zeroth" section.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "zeroth/config/settings.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

namespace detail {
struct ConfigState;
}

/// A stage file. Immutable, and shared by threads. Makers throw one ConfigError that lists every problem.
class ZEROTH_EXPORT Config {
 public:
  /// Reads a regular file. Throws ConfigError, also if it cannot be read.
  [[nodiscard]] static Config from_file(std::filesystem::path const& path);
  /// The text of one. Throws ConfigError.
  [[nodiscard]] static Config from_json(std::string_view text);
  /// A copy in which what `changes`, a JSON object, says takes the place of what the file says: {"zero_optimization":
  /// {"stage": 2}}. What neither says is derived again. Messages name this file.
  [[nodiscard]] Config with(std::string_view changes) const;
  /// A copy that trains by a rule of the program's own, where the file has no optimizer.type. The rate is the
  /// schedule's, or StepOptions::learning_rate. Throws ContractError for a rule without a name or a function, with more
  /// states than optim::most_states, or with one that does not start from a finite number. An Engine on a GPU refuses
  /// it.
  [[nodiscard]] Config with(optim::Own rule) const;
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
