// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/config/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::config {
namespace {

constexpr std::size_t depth_limit =
    32;  // a stage file needs 4, a model not many more; code that walks the tree is recursive, its destructor too
constexpr std::size_t shown_limit = 60;  // characters of a value that a message repeats
constexpr std::size_t why_limit = 200;   // and of the parser's message, which may repeat everything that it has read

/// Tracks the parser's position: `furthest` is how much of the text it has consumed.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = char const*;
  using reference = char const&;

  char const* at;
  char const** furthest;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *furthest = ++at;
    return *this;
  }
  Cursor operator++(int) {
    auto const before = *this;
    ++*this;
    return before;
  }
  bool operator==(Cursor const& other) const { return at == other.at; }
};

/// The beginning of `text`, at most `most` bytes, cut between characters.
std::string_view beginning(std::string_view text, std::size_t most) {
  auto shown = text.substr(0, most);
  while (shown.size() < text.size() && !shown.empty() &&
         (static_cast<unsigned char>(text[shown.size()]) & 0xc0U) == 0x80U) {
    shown.remove_suffix(1);
  }
  return shown;
}

/// Escapes and shortens the parser's message about a text that may hold anything.
std::string parser_says(std::string_view why) {
  auto const shown = beginning(why, why_limit);
  return escaped(shown) + (shown.size() < why.size() ? "..." : "");
}

std::optional<std::int64_t> whole(double real) {
  // 2^63 itself does not fit; every whole double from -2^63 to below it does.
  bool const fits = real >= -0x1p63 && real < 0x1p63 && std::trunc(real) == real;
  return fits ? std::optional{static_cast<std::int64_t>(real)} : std::nullopt;
}

/// The position after a string that begins at `at`; the text's end if the string is not closed.
std::size_t after_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    at += text[at] == '\\' ? 1U : 0U;
  }
  return std::min(at + 1, text.size());
}

/// The position after a comment that begins at `at`; `at` if none begins there.
std::size_t after_comment(std::string_view text, std::size_t at) {
  auto const two = text.substr(at, 2);
  if (two != "//" && two != "/*") {
    return at;
  }
  auto const end = two == "//" ? text.find('\n', at) : text.find("*/", at + 2);
  return end == std::string_view::npos ? text.size() : end + (two == "//" ? 0U : 2U);
}

/// Replaces each comma that only "}" or "]" follows, as in Hjson, by a space. Keeps lines and columns.
std::string without_trailing_commas(std::string_view text) {
  std::string result{text};
  auto comma = std::string_view::npos;  // that may turn out to be trailing
  char before = '{';                    // the last character before it that is not a space
  for (std::size_t at = 0; at < text.size();) {
    if (auto const after = after_comment(text, at); after != at) {
      at = after;
      continue;
    }
    char const letter = text[at];
    bool const closes = letter == '}' || letter == ']';
    if (closes && comma != std::string_view::npos) {
      result[comma] = ' ';
    }
    if (letter == ',') {
      comma = std::string_view{"{[,"}.find(before) == std::string_view::npos ? at : std::string_view::npos;
    } else if (std::string_view{" \t\r\n"}.find(letter) == std::string_view::npos) {
      comma = std::string_view::npos;
    }
    before = std::string_view{" \t\r\n"}.find(letter) == std::string_view::npos ? letter : before;
    at = letter == '"' ? after_string(text, at) : at + 1;
  }
  return result;
}

/// A hint if the parser gave up at Hjson's syntax, which DeepSpeed reads; empty for other text.
std::string_view of_hjson(std::string_view text, std::size_t at) {
  auto const word = [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; };
  while (at > 0 && at < text.size() && word(text[at]) && word(text[at - 1])) {
    --at;
  }
  if (at >= text.size()) {
    return {};
  }
  if (text[at] == '#') {
    return "; Hjson's comments with # are not read, only // and /* */";
  }
  if (text[at] == '\'') {
    return "; Hjson's quotes of ' are not read, only \"";
  }
  if (std::isalpha(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_') {
    return "; Hjson's names and strings without quotes are not read";
  }
  return {};
}

class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, Comments comments, Problems& problems)
      : text_{text},
        furthest_{text.data()},
        line_start_{text.data()},
        comments_{comments == Comments::allowed},
        problems_{problems} {}

  Object build() {
    if (auto const nul = text_.find('\0'); nul != std::string_view::npos) {  // the parser would take it for the end
      static_cast<void>(fail(nul + 1, "a NUL byte"));
      return {};
    }
    Cursor const first{text_.data(), &furthest_};
    Cursor const last{text_.data() + text_.size(), &furthest_};
    bool const parsed = nlohmann::json::sax_parse(first, last, this, nlohmann::json::input_format_t::json,
                                                  /*strict=*/true, comments_);
    if (!parsed) {
      return {};
    }
    if (auto* const object = std::get_if<Object>(&root_.value)) {
      return std::move(*object);
    }
    problems_.push_back({"", 0, fmt::format("holds {}; allowed: one JSON object", describe(root_))});
    return {};
  }

  bool null() override { return add({nullptr}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(std::int64_t value) override {
    return add({Number{static_cast<double>(value), value, std::to_string(value)}});
  }
  bool number_unsigned(std::uint64_t value) override {
    auto const fits = std::in_range<std::int64_t>(value);
    return add({Number{static_cast<double>(value),
                       fits ? std::optional{static_cast<std::int64_t>(value)} : std::nullopt, std::to_string(value)}});
  }
  bool number_float(double value, std::string const& spelling) override {
    return add({Number{value, whole(value), spelling}});
  }
  bool string(std::string& value) override { return add({std::move(value)}); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }  // only in formats other than text

  bool start_object(std::size_t /*count*/) override { return open({Object{}}); }
  bool start_array(std::size_t /*count*/) override { return open({Array{}}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    auto& object = open_.back();
    object.line = line_here();
    auto const [first, is_new] = object.lines.try_emplace(name, object.line);
    object.name = std::move(name);
    object.drop = !is_new;
    if (!is_new && problems_.full()) {
      problems_.count_one();
    } else if (!is_new) {
      problems_.push_back({path_here(), object.line, fmt::format("given twice, first on line {}", first->second)});
    }
    return true;
  }

  bool parse_error(std::size_t position, std::string const& /*last_token*/,
                   nlohmann::json::exception const& error) override {
    std::string_view why{error.what()};
    why.remove_prefix(std::min(why.size(), why.find("] ") + 2));
    if (why.starts_with("parse error at")) {
      why.remove_prefix(std::min(why.size(), why.find(": ") + 2));
    }
    auto const hint = comments_ ? of_hjson(text_, position == 0 ? 0 : position - 1) : std::string_view{};
    return fail(position, fmt::format("{}{}", parser_says(why), hint));
  }

 private:
  struct Open {
    Node node;
    std::string name;   // the member being read
    int line = 0;       // line of that name
    bool drop = false;  // whether that name was given before
    std::unordered_map<std::string, int> lines;
  };

  bool open(Node node) {
    if (open_.size() == depth_limit) {
      return fail(static_cast<std::size_t>(furthest_ - text_.data()),
                  fmt::format("nested deeper than {} levels", depth_limit));
    }
    open_.push_back({std::move(node), {}, 0, false, {}});
    return true;
  }

  bool close() {
    auto node = std::move(open_.back().node);
    open_.pop_back();
    return add(std::move(node));
  }

  bool add(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (auto& parent = open_.back(); auto* const array = std::get_if<Array>(&parent.node.value)) {
      array->push_back(std::move(node));
    } else if (!parent.drop) {
      std::get<Object>(parent.node.value).push_back({parent.name, parent.line, std::move(node)});
    }
    return true;
  }

  bool fail(std::size_t position, std::string const& why) {
    // `position` counts the characters read, including the offending one.
    auto const before = text_.substr(0, position == 0 ? 0 : position - 1);
    auto const line = std::count(before.begin(), before.end(), '\n') + 1;
    auto const column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    problems_.push_back({"", 0, fmt::format("line {}, column {}: not valid JSON: {}", line, column, why)});
    return false;
  }

  int line_here() {
    line_ += static_cast<int>(std::count(line_start_, furthest_, '\n'));
    line_start_ = furthest_;
    return line_;
  }

  std::string path_here() const {
    std::string path;
    for (auto const& level : open_) {
      if (auto const* const array = std::get_if<Array>(&level.node.value)) {
        path += fmt::format("[{}]", array->size());
      } else {
        path += (path.empty() ? "" : ".") + path_part(level.name);
      }
    }
    return path;
  }

  std::string_view text_;
  char const* furthest_;
  char const* line_start_;  // lines are counted up to here
  int line_ = 1;
  bool comments_;
  Problems& problems_;
  std::vector<Open> open_;
  Node root_;
};

}  // namespace

Object read_document(std::string_view text, Problems& problems, Comments comments) {
  if (comments == Comments::refused) {
    return TreeBuilder{text, comments, problems}.build();
  }
  auto const plain = without_trailing_commas(text);
  return TreeBuilder{plain, comments, problems}.build();
}

Member const* find(Object const& object, std::string_view name) noexcept {
  auto const found = std::ranges::find(object, name, &Member::name);
  return found == object.end() ? nullptr : &*found;
}

std::string in_quotes(std::string_view text) {
  auto const shown = beginning(text, shown_limit);
  std::string result{'"'};
  for (char const character : escaped(shown)) {
    result += character == '"' ? "\\\"" : std::string(1, character);
  }
  return result + (shown.size() == text.size() ? "\"" : "...\"");
}

std::string path_part(std::string_view name) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  bool const safe =
      !name.empty() && name.size() <= shown_limit && name.find_first_not_of(plain) == std::string_view::npos;
  return safe ? std::string{name} : in_quotes(name);
}

namespace {

/// Appends to `out`. Lists longer than shown_limit characters show only their first items.
struct Shown {
  std::string& out;

  void operator()(std::nullptr_t) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(Number const& value) const {
    out += value.spelling.substr(0, shown_limit);
    out += value.spelling.size() <= shown_limit ? "" : "...";
  }
  void operator()(std::string const& value) const { out += in_quotes(value); }
  void operator()(Array const& value) const {
    list('[', value, ']', [&](Node const& item) { std::visit(*this, item.value); });
  }
  void operator()(Object const& value) const {
    list('{', value, '}', [&](Member const& member) {
      out += in_quotes(member.name);
      out += ": ";
      std::visit(*this, member.node.value);
    });
  }

 private:
  template <class Items, class Show>
  void list(char open, Items const& items, char close, Show const& show_one) const {
    auto const start = out.size();
    out += open;
    for (std::size_t i = 0; i < items.size(); ++i) {
      out += i == 0 ? "" : ", ";
      if (out.size() - start > shown_limit) {
        out += "...";
        break;
      }
      show_one(items[i]);
    }
    out += close;
  }
};

}  // namespace

std::string show(Node const& node) {
  std::string text;
  std::visit(Shown{text}, node.value);
  return text;
}

std::string_view describe(Node const& node) {
  constexpr std::string_view kinds[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
  return kinds[node.value.index()];
}

}  // namespace zeroth::config
