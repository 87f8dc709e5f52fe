// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/node_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// More than any meaningful list has: "n[0-999999999]" would fill the memory.
constexpr std::size_t most_nodes = std::size_t{1} << 20;
constexpr std::size_t most_digits = 18;

class Parser {
 public:
  Parser(std::string_view list, std::string_view variable) : list_{list}, variable_{variable} {}

  std::vector<std::string> parse() {
    std::vector<std::string> nodes;
    do {
      auto names = names_of_item();
      nodes.insert(nodes.end(), names.begin(), names.end());
      check_count(nodes.size());
    } while (take(','));
    if (at_ != list_.size()) {
      fail("a ']' without '['");
    }
    return nodes;
  }

 private:
  [[noreturn]] void fail(std::string const& what) const {
    throw ConfigError{
        fmt::format("{}='{}' in the environment is not a list of nodes in Slurm's notation: {} at character {}",
                    variable_, list_, what, at_ + 1)};
  }
  void check_count(std::size_t count) const {
    if (count > most_nodes) {
      fail(fmt::format("more than {} nodes", most_nodes));
    }
  }
  [[nodiscard]] char peek() const { return at_ < list_.size() ? list_[at_] : '\0'; }
  bool take(char wanted) {
    bool const is_there = at_ < list_.size() && list_[at_] == wanted;
    at_ += is_there ? 1 : 0;
    return is_there;
  }

  /// Text and brackets up to the next comma outside of brackets.
  std::vector<std::string> names_of_item() {
    std::vector<std::string> names{""};
    std::size_t const begin = at_;
    while (at_ < list_.size() && peek() != ',' && peek() != ']') {
      auto const parts = take('[') ? numbers_in_brackets() : std::vector<std::string>{text()};
      check_count(names.size() * parts.size());
      std::vector<std::string> longer;
      for (auto const& name : names) {
        std::transform(parts.begin(), parts.end(), std::back_inserter(longer),
                       [&name](auto const& part) { return name + part; });
      }
      names = std::move(longer);
    }
    if (at_ == begin) {
      fail("a name is missing");
    }
    return names;
  }

  std::string text() {
    std::size_t const end = std::min(list_.find_first_of(",[]", at_), list_.size());
    auto const part = list_.substr(at_, end - at_);
    if (auto const blank = part.find_first_of(" \t\r\n"); blank != std::string_view::npos) {
      at_ += blank;
      fail("a blank");
    }
    at_ = end;
    return std::string{part};
  }

  std::vector<std::string> numbers_in_brackets() {
    std::vector<std::string> numbers;
    do {
      std::size_t const digits = digit_count();
      std::uint64_t const first = number();
      std::uint64_t const last = take('-') ? number() : first;
      if (last < first) {
        fail(fmt::format("a range from {} down to {}", first, last));
      }
      check_count(numbers.size() + (last - first) + 1);
      for (auto each = first; each <= last; ++each) {
        numbers.push_back(fmt::format("{:0{}}", each, digits));
      }
    } while (take(','));
    if (!take(']')) {
      fail(at_ == list_.size() ? "a '[' without ']'" : "neither a digit, '-', ',' nor ']'");
    }
    return numbers;
  }

  [[nodiscard]] std::size_t digit_count() const {
    std::size_t const end = std::min(list_.find_first_not_of("0123456789", at_), list_.size());
    return end - at_;
  }
  std::uint64_t number() {
    std::size_t const digits = digit_count();
    if (digits == 0 || digits > most_digits) {
      fail(digits == 0 ? "a number is missing" : fmt::format("a number of {} digits", digits));
    }
    std::uint64_t value = 0;
    std::from_chars(list_.data() + at_, list_.data() + at_ + digits, value);
    at_ += digits;
    return value;
  }

  std::string_view list_, variable_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list, std::string_view variable) {
  return Parser{list, variable}.parse();
}

}  // namespace zeroth::comm
