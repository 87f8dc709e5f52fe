// SPDX-License-Identifier: Apache-2.0
#include "config/read.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <utility>

#include "config/check.hpp"
#include "config/names.hpp"

namespace zeroth::config {
namespace {

class Reader {
 public:
  explicit Reader(Problems& problems) : problems_{problems} {}

  Values read(Object const& document) {
    read_section(document, "", "");
    return values_;
  }

 private:
  /// `path` is the section's, `written` how the file spells it.
  void read_section(Object const& section, std::string const& path, std::string const& written) {
    std::string const dot = path.empty() ? "" : ".";
    for (auto const& member : section) {
      auto const member_path = canonical(path + dot + member.name);
      // A name with a dot in it would pass for a path.
      if (member.name.find('.') != std::string::npos || !is_known(member_path)) {
        unknown(path, member, written + dot);
        continue;
      }
      auto const member_written = written + dot + path_part(member.name);
      auto const [first, is_new] = written_as_.try_emplace(member_path, member_written);
      if (!is_new) {
        problem(member_written, member,
                fmt::format("is another spelling of {}, which is given too; keep one", first->second));
      } else if (auto const key = find_key(member_path)) {
        read_value(*key, member, member_written);
      } else if (auto const* const foreign = find_foreign_key(member_path); foreign != nullptr) {
        read_foreign(*foreign, member, member_written);
      } else if (auto const* const object = std::get_if<Object>(&member.node.value)) {
        read_section(*object, member_path, member_written);
      } else {
        problem(member_written, member,
                fmt::format("{} is {}; allowed: an object", show(member.node), describe(member.node)));
      }
    }
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
      if (key.automatic) {
        entry.value.reset();
      }
      return;
    }
    auto const checked = check(key, member.node);
    if (checked.wrong.empty()) {
      entry.source = Source::value;
      entry.value = checked.value;
    } else {
      entry.source = Source::mistake;
      entry.value.reset();
      problem(written, member, fmt::format("{}; allowed: {}", checked.wrong, allowed(key)));
    }
  }

  void read_foreign(ForeignKey const& key, Member const& member, std::string const& written) {
    if (asks_for_nothing(key, member.node)) {
      return;
    }
    auto const set = key.accepted.empty() ? std::string{} : fmt::format(" or set it to {}", key.accepted);
    auto const advice = key.advice.empty() ? std::string{} : fmt::format("; {}", key.advice);
    problem(written, member,
            fmt::format("{}: Zeroth does not support this key of DeepSpeed's yet; remove it{}{}", show(member.node),
                        set, advice));
  }

  void unknown(std::string const& section, Member const& member, std::string const& written_section) {
    if (problems_.full()) {
      return problems_.count_one();
    }
    auto const as_path = canonical(section + (section.empty() ? "" : ".") + member.name);
    bool const flat = find_key(as_path).has_value();  // "zero_optimization.stage": as messages, but not files, name it
    auto const meant = flat ? as_path : nearest_path(section, member.name);
    auto const key = find_key(canonical(meant));
    std::string remedy;
    if (meant.empty()) {
      auto const names = names_in(section);
      remedy = fmt::format("allowed {}: {}", section.empty() ? "at the top" : "in " + section,
                           names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")));
    } else if (key) {
      remedy =
          fmt::format("did you mean {}{} ({})?", meant, flat ? ", one object in another" : "", allowed(keys[*key]));
    } else {
      bool const foreign = find_foreign_key(canonical(meant)) != nullptr;
      remedy = fmt::format("did you mean {}{}?", meant, foreign ? " (DeepSpeed's, not supported by Zeroth yet)" : "");
    }
    problem(written_section + path_part(member.name), member,
            fmt::format("unknown key, with value {}; {}", show(member.node), remedy));
  }

  void problem(std::string const& path, Member const& member, std::string text) {
    problems_.push_back({path, member.line, std::move(text)});
  }

  Problems& problems_;
  Values values_;
  std::map<std::string, std::string> written_as_;  // path -> how the file spells it
};

}  // namespace

Values read_values(Object const& document, Problems& problems) { return Reader{problems}.read(document); }

}  // namespace zeroth::config
