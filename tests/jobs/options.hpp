// SPDX-License-Identifier: Apache-2.0
/// All that a job may combine: keys of the stage file, and what a program does with its engine.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::testing::jobs {

/// One way to set an option. The first of an option is the plain one.
struct Value {
  std::string name;
  std::string changes;  ///< Changes to the stage file: a JSON object, or empty.
};

/// Whether an option decides the bits, so that the reference has it as well.
enum class Role { decides, moves };

struct Option {
  std::string name;  ///< The key's path, if the values are those of a key.
  Role role;
  std::vector<Value> values;
};

/// `option` may have one of `values` (none: all but the plain one) only if `needed` has one of `allowed`.
struct Rule {
  std::string_view option;
  std::vector<std::string_view> values;
  std::string_view needed;
  std::vector<std::string_view> allowed;
};

[[nodiscard]] std::vector<Option> const& options();
[[nodiscard]] std::vector<Rule> const& rules();
/// Throws std::logic_error for a name that no option has.
[[nodiscard]] std::size_t option_named(std::string_view name);

/// A value of every option.
class Choice {
 public:
  Choice();  ///< The plain one of each.
  [[nodiscard]] std::string_view operator[](std::string_view option) const;
  [[nodiscard]] bool is(std::string_view option, std::string_view value) const { return (*this)[option] == value; }
  [[nodiscard]] bool is_plain(std::string_view option) const { return values_[option_named(option)] == 0; }
  [[nodiscard]] std::vector<std::size_t> const& values() const noexcept { return values_; }
  void set(std::size_t option, std::size_t value) { values_[option] = value; }
  /// Throws std::logic_error for a value that the option does not have.
  void set(std::string_view option, std::string_view value);
  /// Resets options that a rule forbids to their plain values.
  void settle();
  /// Like settle(), but options in `kept` keep their values, which equal those of `before`. Options that they need get
  /// the values of `before`, and are kept too.
  void settle(Choice const& before, std::vector<bool> kept);

 private:
  std::vector<std::size_t> values_;
};

/// Whether all other options may stay as they are in a pipeline.
[[nodiscard]] bool takes_pipelines(Choice const& choice);
/// Whether some job may have both values.
[[nodiscard]] bool go_together(std::size_t option, std::size_t value, std::size_t other, std::size_t other_value);

}  // namespace zeroth::testing::jobs
