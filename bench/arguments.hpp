/// Command lines of benchmarks: what is not understood to its last character is refused.
#pragma once
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::bench {

/// Reads arguments in their order. What is wrong is printed with the usage, and ends the program with status 2.
class Arguments {
 public:
  Arguments(int count, char** words, char const* usage)
      : program_{std::filesystem::path{words[0]}.filename().string()},
        words_{words + 1, words + count},
        usage_{usage} {}

  /// The next one, from 1 to a million; `otherwise` if there is none.
  [[nodiscard]] std::int64_t whole(char const* name, std::int64_t otherwise) {
    return at_end() ? otherwise : number(name, next());
  }
  /// The same with commas between.
  [[nodiscard]] std::vector<int> wholes(char const* name, std::vector<int> otherwise) {
    if (at_end()) {
      return otherwise;
    }
    std::vector<int> numbers;
    std::string_view rest = next();
    for (bool more = true; more;) {
      auto const comma = rest.find(',');
      numbers.push_back(static_cast<int>(number(name, rest.substr(0, comma))));
      more = comma != std::string_view::npos;
      rest.remove_prefix(more ? comma + 1 : rest.size());
    }
    return numbers;
  }
  [[nodiscard]] std::string_view text(std::string_view otherwise) { return at_end() ? otherwise : next(); }
  [[nodiscard]] std::string_view one_of(char const* name, std::vector<std::string_view> const& allowed,
                                        std::string_view otherwise) {
    auto const word = text(otherwise);
    std::string list;
    for (auto const each : allowed) {
      if (word == each) {
        return word;
      }
      list.append(list.empty() ? "" : ", ").append(each);
    }
    refuse(name, word, list);
  }
  /// Nothing may follow.
  void end() {
    if (!at_end()) {
      refuse("what follows", next(), "nothing");
    }
  }

 private:
  [[nodiscard]] bool at_end() const noexcept { return next_ == words_.size(); }
  [[nodiscard]] std::string_view next() noexcept { return words_[next_++]; }
  [[nodiscard]] std::int64_t number(char const* name, std::string_view word) const {
    constexpr std::int64_t most = 1'000'000;
    std::int64_t value = 0;
    auto const [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || rest != word.data() + word.size() || value < 1 || value > most) {
      refuse(name, word, "whole numbers from 1 to 1000000");
    }
    return value;
  }
  [[noreturn]] void refuse(char const* name, std::string_view word, std::string_view allowed) const {
    std::fprintf(stderr, "%s: %s is \"%.*s\"; allowed: %.*s\nusage: %s %s\n", program_.c_str(), name,
                 static_cast<int>(word.size()), word.data(), static_cast<int>(allowed.size()), allowed.data(),
                 program_.c_str(), usage_);
    std::exit(2);
  }

  std::string program_;
  std::vector<std::string_view> words_;
  char const* usage_;
  std::size_t next_ = 0;
};

}  // namespace zeroth::bench
