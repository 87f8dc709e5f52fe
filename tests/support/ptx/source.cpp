// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/source.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace zeroth::testing::ptx {
namespace {

constexpr std::string_view blanks = " \t\r\n";

bool is_blank(char c) { return blanks.find(c) != std::string_view::npos; }

/// Removes the first word from `text`, and returns it.
std::string_view take_word(std::string_view& text) {
  text = trimmed(text);
  auto const end = std::min(text.find_first_of(blanks), text.size());
  auto const word = text.substr(0, end);
  text = trimmed(text.substr(end));
  return word;
}

/// Removes comments, and keeps line ends in place.
std::string without_comments(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else {
      result += text[at++];
    }
  }
  return result;
}

Statement statement_of(std::string_view text, int line) {
  Statement result;
  result.line = line;
  if (text.starts_with('@')) {
    auto guard = take_word(text).substr(1);
    result.unless = guard.starts_with('!');
    result.guard = guard.substr(result.unless ? 1 : 0);
  }
  result.opcode = take_word(text);
  if (result.opcode.starts_with('.')) {  // a declaration: words, the last of which is the name
    while (!text.empty()) {
      result.operands.emplace_back(take_word(text));
    }
  } else {
    result.operands = split_operands(text);
  }
  return result;
}

/// Reads a kernel's text from start to end.
class Reader {
 public:
  explicit Reader(KernelText const& kernel) : text_{without_comments(kernel.text)}, line_{kernel.line} {}

  KernelSource read() {
    auto const open = text_.find('(');
    auto const body = text_.find('{');
    if (open == std::string::npos || body == std::string::npos || open > body) {
      throw std::runtime_error{"PTX: a kernel without parameters or without a body"};
    }
    header(open, body);
    statements(body);
    return std::move(kernel_);
  }

 private:
  void header(std::size_t open, std::size_t body) {
    std::string_view name = std::string_view{text_}.substr(0, open);
    while (!name.empty()) {
      kernel_.name = take_word(name);
    }
    auto const close = text_.find(')', open);
    for (auto const& each : split_operands(std::string_view{text_}.substr(open + 1, close - open - 1))) {
      kernel_.parameters.push_back(statement_of(each, line_));
    }
    constexpr std::string_view most_threads = ".maxntid";
    if (auto const at = text_.find(most_threads, close); at < body) {
      kernel_.max_threads = std::stoi(text_.substr(at + most_threads.size()));
    }
  }

  void statements(std::size_t body) {
    line_ += static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(body), '\n'));
    for (at_ = body; at_ < text_.size();) {
      char const c = text_[at_];
      line_ += c == '\n' ? 1 : 0;
      if (is_blank(c) || c == '{' || c == '}') {  // a block: only names of blocks' registers repeat
        ++at_;
      } else {
        one();
      }
    }
  }

  /// Reads a label or a statement.
  void one() {
    auto const end = text_.find_first_of(":;", at_);
    if (end == std::string::npos) {
      throw std::runtime_error{"PTX: line " + std::to_string(line_) + " does not end"};
    }
    auto const text = std::string_view{text_}.substr(at_, end - at_);
    if (text_[end] == ':') {
      kernel_.labels[std::string{trimmed(text)}] = kernel_.statements.size();
    } else {
      kernel_.statements.push_back(statement_of(text, line_));
    }
    line_ += static_cast<int>(std::ranges::count(text, '\n'));
    at_ = end + 1;
  }

  std::string text_;
  int line_;
  std::size_t at_ = 0;
  KernelSource kernel_;
};

}  // namespace

std::string Statement::text() const {
  std::string result = guard.empty() ? "" : (unless ? "@!" : "@") + guard + " ";
  result += opcode;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    result += (i == 0 ? " " : ", ") + operands[i];
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  auto const begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string> split_operands(std::string_view text) {
  std::vector<std::string> result;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    bool const ends = i == text.size() || (depth == 0 && (text[i] == ',' || text[i] == '|'));
    if (ends) {
      if (auto const part = trimmed(text.substr(begin, i - begin)); !part.empty()) {
        result.emplace_back(part);
      }
      begin = i + 1;
    } else if (text[i] == '{' || text[i] == '[') {
      ++depth;
    } else if (text[i] == '}' || text[i] == ']') {
      --depth;
    }
  }
  return result;
}

std::map<std::string, KernelText> kernels_of(std::string_view module) {
  constexpr std::string_view entry = ".entry ";
  std::map<std::string, KernelText> result;
  int line = 1;
  std::size_t counted = 0;
  for (auto at = module.find(entry); at != std::string_view::npos;) {
    auto const end = std::min(module.find("\n}", at), module.size() - 2) + 2;  // braces of blocks are indented
    line += static_cast<int>(std::ranges::count(module.substr(counted, at - counted), '\n'));
    counted = at;
    auto const text = module.substr(at, end - at);
    auto const name = trimmed(text.substr(entry.size(), text.find('(') - entry.size()));
    result.emplace(name, KernelText{std::string{text}, line});
    at = module.find(entry, end);
  }
  return result;
}

KernelSource take_apart(KernelText const& kernel) { return Reader{kernel}.read(); }

}  // namespace zeroth::testing::ptx
