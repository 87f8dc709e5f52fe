// SPDX-License-Identifier: Apache-2.0
#include "config/open.hpp"

#include <fmt/format.h>

#include <string>

namespace zeroth::config {
namespace {

constexpr auto train = index_of<"train_batch_size">;
constexpr auto micro = index_of<"train_micro_batch_size_per_gpu">;
constexpr auto steps = index_of<"gradient_accumulation_steps">;
constexpr auto fp16 = index_of<"fp16.enabled">;
constexpr auto bf16 = index_of<"bf16.enabled">;

bool has(Values const& values, std::size_t key) { return values.entries[key].source == Source::value; }
bool is_automatic(Values const& values, std::size_t key) { return values.entries[key].source == Source::automatic; }

void take(Values& values, Values const& given, std::size_t key) {
  if (has(given, key) && !values.says(key)) {
    auto& entry = values.entries[key];
    entry = {Source::given, entry.line, given.entries[key].value};
  }
}

bool says_nothing_of(Values const& values, std::string_view section) {
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].path.starts_with(section) && values.entries[i].source != Source::nothing) {
      return false;
    }
  }
  return true;
}

/// Two of the three sizes determine the third, which is then not open.
void fill_batch(Values& values, Values const& given) {
  struct Size {
    std::size_t key, first, second;
  };
  for (auto const& [key, first, second] :
       {Size{micro, train, steps}, Size{steps, train, micro}, Size{train, micro, steps}}) {
    if (!values.says(first) || !values.says(second)) {
      take(values, given, key);
    }
  }
}

bool enables(Values const& values, std::size_t key) {
  return values.says(key) && values.entries[key].value == Value{true};
}

/// "auto" in either section asks one question: which dtype?
void fill_dtype(Values& values, Values const& given) {
  bool const asked = is_automatic(values, fp16) || is_automatic(values, bf16);
  if (asked && !enables(values, fp16) && !enables(values, bf16)) {
    take(values, given, fp16);
    take(values, given, bf16);
  }
}

/// If the file lacks the section and the program provides it, all of its values are the program's.
void fill_section(Values& values, Values const& given, std::string_view section, bool brings) {
  bool const whole = brings && says_nothing_of(values, section);
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].path.starts_with(section) && (whole || is_automatic(values, i))) {
      take(values, given, i);
    }
  }
}

}  // namespace

void fill_open(Values& values, Values const& given) {
  fill_batch(values, given);
  fill_dtype(values, given);
  fill_section(values, given, "optimizer.", true);
  fill_section(values, given, "scheduler.", has(given, index_of<"scheduler.type">));
  for (std::size_t i = 0; i < key_count; ++i) {
    bool const is_own_matter = i == train || i == micro || i == steps || i == fp16 || i == bf16;
    if (!is_own_matter && is_automatic(values, i)) {
      take(values, given, i);
    }
  }
  auto const lr = index_of<"optimizer.params.lr">;
  auto& warmup_max = values.entries[index_of<"scheduler.params.warmup_max_lr">];
  if (warmup_max.source == Source::automatic && !values.says(lr) && has(given, lr)) {  // the rate, under its usual name
    warmup_max = {Source::given, warmup_max.line, given.entries[lr].value};
  }
}

void take_stated(Values& values, Values const& stated, std::string_view who, Problems& problems) {
  for (std::size_t i = 0; i < key_count; ++i) {
    auto const& entry = values.entries[i];
    if (!has(stated, i) || entry.source == Source::mistake) {
      continue;
    }
    if (values.says(i) && entry.value != stated.entries[i].value) {
      problems.push_back({std::string{keys[i].path}, entry.line,
                          fmt::format("{}, but {} says {}; change one of them", to_text(*entry.value), who,
                                      to_text(*stated.entries[i].value))});
    }
    take(values, stated, i);
  }
  for (std::size_t i = 0; i < key_count; ++i) {
    if (has(stated, i) && !keys[i].types.empty() && !applies(keys[i], values)) {
      auto const& type = keys[type_of(keys[i])];
      problems.push_back({std::string{keys[i].path}, 0,
                          fmt::format("{} from {} does not apply: {} is {}", to_text(*stated.entries[i].value), who,
                                      type.path, to_text(values.entries[type_of(keys[i])].value.value_or(Value{})))});
    }
  }
}

void note_ignored(Values const& values, Values const& given, std::string_view who, Notes& notes) {
  for (std::size_t i = 0; i < key_count; ++i) {
    auto const& entry = values.entries[i];
    auto const& value = given.entries[i].value;
    if (has(given, i) && applies(keys[i], values) && entry.source != Source::mistake && entry.value != value) {
      auto const why = has(values, i) ? fmt::format("the file says {}", to_text(*entry.value))
                       : entry.value  ? fmt::format("the file leaves it at {}", to_text(*entry.value))
                                      : std::string{"the file does not leave it open"};
      notes.push_back({NoteKind::assumed, std::string{keys[i].path}, entry.line,
                       fmt::format("{} from {} is ignored: {}", to_text(*value), who, why)});
    }
  }
}

std::vector<OpenValue> open_values(Values const& values) {
  std::vector<OpenValue> open;
  auto const add = [&](std::size_t key, std::string text) {
    open.push_back({std::string{keys[key].path}, values.entries[key].line, std::move(text)});
  };
  if (!values.says(train) && !values.says(micro)) {
    add(micro, fmt::format("{}; or give train_batch_size", allowed(keys[micro])));
  }
  if (constexpr auto type = index_of<"optimizer.type">;
      values.entries[type].source == Source::nothing && is_strict(values)) {
    add(type, fmt::format("{}; or give a rule of the program: none is assumed if zeroth.strict is true",
                          allowed(keys[type])));
  }
  bool const rate_is_open = is_automatic(values, index_of<"optimizer.params.lr">);
  for (std::size_t i = 0; i < key_count; ++i) {
    bool const follows = i == index_of<"scheduler.params.warmup_max_lr"> && rate_is_open;
    if (is_automatic(values, i) && keys[i].when_auto != nullptr && !values.entries[i].value && !follows &&
        applies(keys[i], values)) {
      add(i, allowed(keys[i]));
    }
  }
  return open;
}

}  // namespace zeroth::config
