// SPDX-License-Identifier: Apache-2.0
#include "config/read.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "config/check.hpp"
#include "config/foreign_keys.hpp"
#include "config/names.hpp"

namespace zeroth::config {
namespace {

/// Refused keys of one section that share a reason, merged into one problem.
struct Cause {
  Problem first;
  std::vector<std::string> others;
};

/// Names that people use for comments in JSON: "_comment", "_read_the_docs", "comment", "comments", "//".
bool is_comment(std::string_view name) {
  return name.starts_with('_') || name.starts_with("comment") || name.starts_with("//") || name.starts_with('#');
}

/// A number in a string, which DeepSpeed accepts in zero_optimization: a whole one without an exponent, or a real one.
std::optional<Node> number_in_text(Key const& key, Node const& node) {
  auto const* const text = std::get_if<std::string>(&node.value);
  if (text == nullptr || text->find_first_not_of("-.0123456789eE") != std::string::npos) {
    return std::nullopt;
  }
  auto const* const end = text->data() + text->size();
  Number number{.real = 0, .integer = {}, .spelling = *text};
  if (key.kind == Kind::integer) {
    std::int64_t whole = 0;
    auto const [rest, error] = std::from_chars(text->data(), end, whole);
    std::string_view const fraction{rest, static_cast<std::size_t>(end - rest)};
    bool const is_whole =
        fraction.empty() || (fraction.front() == '.' && fraction.find_first_not_of('0', 1) == std::string_view::npos);
    number.integer = whole;
    number.real = static_cast<double>(whole);
    return error == std::errc{} && is_whole ? std::optional{Node{number}} : std::nullopt;
  }
  auto const [rest, error] = std::from_chars(text->data(), end, number.real);
  return key.kind == Kind::real && error == std::errc{} && rest == end ? std::optional{Node{number}} : std::nullopt;
}

class Reader {
 public:
  Reader(Problems& problems, Notes& notes) : problems_{problems}, notes_{notes} {}

  Values read(Object const& document) {
    read_section(document, "", "");
    return values_;
  }

 private:
  /// `path` is the section's path, `written` the file's spelling of it.
  void read_section(Object const& section, std::string const& path, std::string const& written) {
    std::vector<Cause> causes;
    std::string const dot = path.empty() ? "" : ".";
    for (auto const* const member : types_first(section)) {
      auto const member_path = canonical(path + dot + member->name);
      // A name with a dot in it would be taken for a path.
      if (member->name.find('.') != std::string::npos || !is_known(member_path)) {
        unknown(path, *member, written + dot);
        continue;
      }
      auto const member_written = written + dot + path_part(member->name);
      auto const [first, is_new] = written_as_.try_emplace(member_path, member_written);
      if (!is_new) {
        problem(member_written, *member,
                fmt::format("is another spelling of {}, which is given too; keep one", first->second));
      } else if (auto const key = find_key(member_path)) {
        read_value(*key, *member, member_written);
      } else if (auto const* const foreign = find_foreign_key(member_path); foreign != nullptr) {
        read_foreign(*foreign, *member, member_written, causes);
      } else {
        read_section_of(*member, member_path, member_written);
      }
    }
    for (auto& [first, others] : causes) {
      if (!others.empty()) {
        first.text += fmt::format(" (likewise {})", fmt::join(others, ", "));
      }
      problems_.push_back(std::move(first));
    }
  }

  /// optimizer.type before optimizer.params: the parameters of an absent type are not reported.
  static std::vector<Member const*> types_first(Object const& section) {
    std::vector<Member const*> members;
    for (auto const& member : section) {
      members.push_back(&member);
    }
    std::stable_partition(members.begin(), members.end(), [](Member const* member) { return member->name == "type"; });
    return members;
  }

  void read_section_of(Member const& member, std::string const& path, std::string const& written) {
    if (auto const* const object = std::get_if<Object>(&member.node.value)) {
      bool const type_is_wrong = (path == "optimizer.params" && is_mistake<"optimizer.type">()) ||
                                 (path == "scheduler.params" && is_mistake<"scheduler.type">());
      if (!type_is_wrong) {
        read_section(*object, path, written);
      }
      return;
    }
    if (auto const* const flag = std::get_if<bool>(&member.node.value);
        flag != nullptr && path == "zero_optimization") {  // DeepSpeed's oldest spelling
      values_.entries[index_of<"zero_optimization.stage">] = {Source::value, member.line,
                                                              Value{std::int64_t{*flag ? 1 : 0}}};
      return;
    }
    if (!is_null(member.node)) {
      problem(written, member, fmt::format("{} is {}; allowed: an object", show(member.node), describe(member.node)));
    }
  }

  template <Path P>
  [[nodiscard]] bool is_mistake() const {
    return values_.entries[index_of<P>].source == Source::mistake;
  }

  void read_value(std::size_t index, Member const& member, std::string const& written) {
    auto const& key = keys[index];
    auto& entry = values_.entries[index];
    entry.line = member.line;
    if (is_null(member.node) && std::holds_alternative<std::monostate>(key.value)) {
      return;
    }
    if (is_auto(member.node)) {
      entry.source = Source::automatic;
      if (key.automatic || key.when_auto != nullptr) {
        entry.value.reset();
      }
      return;
    }
    auto const in_text =
        key.path.starts_with("zero_optimization.") ? number_in_text(key, member.node) : std::optional<Node>{};
    auto const checked = check(key, in_text ? *in_text : member.node);
    if (checked.wrong.empty()) {
      entry.source = Source::value;
      entry.value = checked.value;
      if (key.removed && checked.value == key.value) {
        note_removed(member, written);
      }
    } else {
      entry.source = Source::mistake;
      entry.value.reset();
      problem(written, member, fmt::format("{}; allowed: {}", checked.wrong, allowed(key)));
    }
  }

  void note_removed(Member const& member, std::string const& written) {
    note(NoteKind::no_effect, written, member,
         show(member.node) + ": DeepSpeed 0.19 has removed this key and refuses the file");
  }

  void read_foreign(ForeignKey const& key, Member const& member, std::string const& written,
                    std::vector<Cause>& causes) {
    auto const shown = show(member.node);
    if (asks_for_nothing(key, member.node)) {
      if (key.verdict == Verdict::removed) {
        note_removed(member, written);
      }
      return;
    }
    if (!has_form(key, member.node)) {
      return problem(written, member,
                     fmt::format("{} is {}; allowed: {}", shown, describe(member.node), allowed(key.form)));
    }
    switch (key.verdict) {
      case Verdict::moot: return;
      case Verdict::no_effect: return note(NoteKind::no_effect, written, member, fmt::format("{}: {}", shown, key.why));
      case Verdict::removed:
        return problem(written, member,
                       fmt::format("DeepSpeed 0.19 has removed this key, and Zeroth does not have it{}{}",
                                   key.why.empty() ? "" : "; ", key.why));
      case Verdict::refused: return refuse(key, member, written, causes);
    }
  }

  /// The first of several keys with the same reason has the line, and names the others.
  void refuse(ForeignKey const& key, Member const& member, std::string const& written, std::vector<Cause>& causes) {
    auto const text = [&](std::string_view shown) {
      auto const allowed_here = key.nothing.empty() ? "remove it" : fmt::format("allowed: {}", key.nothing);
      return fmt::format("{} is not supported: {}; {}", shown, key.why, allowed_here);
    };
    auto const same =
        std::ranges::find_if(causes, [&](Cause const& cause) { return cause.first.text.ends_with(text("")); });
    if (same == causes.end()) {
      causes.push_back({{written, member.line, text(show(member.node))}, {}});
    } else {
      same->others.push_back(path_part(member.name));
    }
  }

  void unknown(std::string const& section, Member const& member, std::string const& written_section) {
    auto const written = written_section + path_part(member.name);
    bool const strict = is_strict_section(section);
    if (is_comment(member.name)) {
      if (strict && section != "zeroth") {
        note(NoteKind::unknown, written, member, "taken as a comment; DeepSpeed refuses it in this section");
      }
      return;
    }
    if (strict && problems_.full()) {  // every unknown name is a problem there
      return problems_.count_one();
    }
    auto const as_path = canonical(section + (section.empty() ? "" : ".") + member.name);
    bool const flat = find_key(as_path).has_value();  // "zero_optimization.stage": messages say so, files do not
    auto const misspelt = flat ? as_path : nearest_spelling(section, member.name);
    if (!strict && misspelt.empty()) {
      bool const is_told = ++unknown_ <= Problems::most;  // a file may have many, and few are printed
      auto const elsewhere = is_told ? nearest_path(section, member.name) : std::string{};
      auto const hint = elsewhere.empty() ? std::string{} : fmt::format("; {} is known", elsewhere);
      return note(NoteKind::unknown, written, member,
                  fmt::format("unknown key, with value {}; ignored, as DeepSpeed does{}", show(member.node), hint));
    }
    auto const meant = misspelt.empty() ? nearest_path(section, member.name) : misspelt;
    problem(written, member,
            fmt::format("unknown key, with value {}; {}", show(member.node), remedy(section, meant, flat)));
  }

  static std::string remedy(std::string const& section, std::string const& meant, bool flat) {
    if (meant.empty()) {
      auto const names = names_in(section);
      return fmt::format("allowed {}: {}", section.empty() ? "at the top" : "in " + section,
                         names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")));
    }
    if (auto const key = find_key(canonical(meant))) {
      return fmt::format("did you mean {}{} ({})?", meant, flat ? ", one object in another" : "", allowed(keys[*key]));
    }
    auto const* const foreign = find_foreign_key(canonical(meant));
    return foreign == nullptr
               ? fmt::format("did you mean {}?", meant)
               : fmt::format("did you mean {} (DeepSpeed's, {} here)?", meant, describe(foreign->verdict));
  }

  void problem(std::string const& path, Member const& member, std::string text) {
    problems_.push_back({path, member.line, std::move(text)});
  }

  void note(NoteKind kind, std::string const& path, Member const& member, std::string text) {
    notes_.push_back({kind, path, member.line, std::move(text)});
  }

  Problems& problems_;
  Notes& notes_;
  Values values_;
  std::size_t unknown_ = 0;                        // notes of that kind
  std::map<std::string, std::string> written_as_;  // path -> how the file spells it
};

}  // namespace

Values read_values(Object const& document, Problems& problems, Notes& notes) {
  return Reader{problems, notes}.read(document);
}

}  // namespace zeroth::config
