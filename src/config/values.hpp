// SPDX-License-Identifier: Apache-2.0
/// The values of a stage file, one per key, each with where it comes from.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "config/keys.hpp"

namespace zeroth::config {

/// What a stage file says about a key.
enum class Source : std::uint8_t {
  nothing,
  value,
  automatic,  ///< "auto".
  program,    ///< Nothing, but the program gives a value.
  given,      ///< Nothing or "auto", and a value is given beside the file.
  mistake,    ///< Something that is not allowed there; already reported.
};

struct Entry {
  Source source = Source::nothing;
  int line = 0;                ///< In the file; 0 for a value that was set instead of the file's.
  std::optional<Value> value;  ///< From the file, the default or derived; none as long as it is not known.
};

/// What only the job and its model know.
struct Given {
  int world = 1;
  std::int64_t largest_unit_count = 0;  ///< Elements.
};

/// Thrown by a read of a value that is not known: not before the job is, because the file has a mistake there, or
/// because it is null. What needed the value then has nothing to say; a derivation or a rule is passed over. Never
/// leaves here.
struct Unknown {};

template <Kind K>
using Stored =
    std::variant_alternative_t<static_cast<std::size_t>(K), std::variant<bool, std::int64_t, double, Pair,
                                                                         std::string_view, std::string_view, Integers>>;

/// Names and texts are views: of the table, or of the document, which must live as long.
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
  /// Whether there is something here, right or wrong, in the file or given beside it. "auto" and null say nothing.
  template <Path P>
  [[nodiscard]] bool says() const {
    return says(index_of<P>);
  }
  [[nodiscard]] bool says(std::size_t key) const {
    auto const source = entries[key].source;
    return source == Source::value || source == Source::given || source == Source::mistake;
  }
  [[nodiscard]] Given job() const { return given ? *given : throw Unknown{}; }
};

/// Derives all values that can be from those that are known. Again once `given` is set, for those that depend on the
/// job.
void derive_all(Values& values);

/// The dtype of the math, by fp16.enabled and bf16.enabled. Throws Unknown.
[[nodiscard]] std::string_view compute_dtype(Values const& values);

/// The type whose parameter `key` is, which has `types`.
[[nodiscard]] constexpr std::size_t type_of(Key const& key) {
  return key.path.starts_with("optimizer.") ? index_of<"optimizer.type"> : index_of<"scheduler.type">;
}

/// Whether a key plays a part: an optimizer's or a scheduler's parameter does so only with that type.
[[nodiscard]] bool applies(Key const& key, Values const& values);

/// Whether what would be noted is an error. A mistake in the word itself says nothing.
[[nodiscard]] inline bool is_strict(Values const& values) noexcept {
  return values.entries[index_of<"zeroth.strict">].value == Value{true};
}

}  // namespace zeroth::config
