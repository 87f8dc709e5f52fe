// SPDX-License-Identifier: Apache-2.0
/// The values of a stage file, one per key, each with its source.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "config/keys.hpp"

namespace zeroth::config {

/// The source of a value.
enum class Source : std::uint8_t {
  nothing,
  value,
  automatic,  ///< "auto".
  program,    ///< Absent, and the program gives a value.
  given,      ///< Absent or "auto" in the file, with a value given by the program.
  mistake,    ///< A value that is not allowed; already reported.
};

struct Entry {
  Source source = Source::nothing;
  int line = 0;                ///< In the file; 0 for a value that was set from outside the file.
  std::optional<Value> value;  ///< From the file, the default or derived; none while it is unknown.
};

/// Facts that only the job and its model know.
struct Given {
  int world = 1;
  std::int64_t largest_unit_count = 0;  ///< Elements.
};

/// Thrown when an unknown value is read: the job is not known yet, the file has a mistake there, or the value is null.
/// The derivation or rule that reads it is then skipped. Never leaves this folder.
struct Unknown {};

template <Kind K>
using Stored = std::variant_alternative_t<
    static_cast<std::size_t>(K),
    std::variant<bool, std::int64_t, double, Pair, std::string_view, std::string_view, Integers, UnitChoice>>;

/// Names and texts are views of the table or of the document, which must live as long.
class Values {
 public:
  std::array<Entry, key_count> entries;
  std::optional<Given> given;

  Values();  ///< An empty file.

  /// Throws Unknown.
  template <Path P>
  [[nodiscard]] auto get() const {
    auto const& entry = entries[index_of<P>];
    using Type = Stored<keys[index_of<P>].kind>;
    if (!entry.value || !std::holds_alternative<Type>(*entry.value)) {
      throw Unknown{};
    }
    return std::get<Type>(*entry.value);
  }
  /// Whether the file, or a value given with it, sets this key, even to an invalid value. "auto" and null do not count.
  template <Path P>
  [[nodiscard]] bool says() const {
    return says(index_of<P>);
  }
  [[nodiscard]] bool says(std::size_t key) const {
    auto const source = entries[key].source;
    return source == Source::value || source == Source::given || source == Source::mistake;
  }
  /// Whether the file itself has a key that begins with `section`, right or wrong.
  [[nodiscard]] bool file_has(std::string_view section) const {
    for (std::size_t i = 0; i < key_count; ++i) {
      if (keys[i].path.starts_with(section) &&
          (entries[i].source == Source::value || entries[i].source == Source::mistake)) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] Given job() const { return given ? *given : throw Unknown{}; }
};

/// Derives all values that can be derived from the known ones. Call it again once `given` is set, for those that depend
/// on the job.
void derive_all(Values& values);

/// The dtype of the math, by fp16.enabled and bf16.enabled. Throws Unknown.
[[nodiscard]] std::string_view compute_dtype(Values const& values);

/// The index of the type key (optimizer.type or scheduler.type) of the parameter `key`.
[[nodiscard]] constexpr std::size_t type_of(Key const& key) {
  return key.path.starts_with("optimizer.") ? index_of<"optimizer.type"> : index_of<"scheduler.type">;
}

/// Whether a key has an effect: an optimizer's or a scheduler's parameter does only with that type.
[[nodiscard]] bool applies(Key const& key, Values const& values);

/// Whether notes are errors. A mistake in zeroth.strict itself counts as no.
[[nodiscard]] inline bool is_strict(Values const& values) noexcept {
  return values.entries[index_of<"zeroth.strict">].value == Value{true};
}

}  // namespace zeroth::config
