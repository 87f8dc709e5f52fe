// SPDX-License-Identifier: Apache-2.0
/// Thousands of damaged stage files, the same in every run: each is accepted or rejected, without any other effect.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "config/fuzz_one.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Random = std::mt19937_64;  // the standard fixes its numbers, but not those of distributions

std::size_t below(Random& random, std::size_t limit) { return static_cast<std::size_t>(random() % limit); }

std::vector<std::string> seeds() {
  std::vector<std::string> texts = {
      R"({"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 1.5e2}, "zeroth": {"check": true}})",
      R"({"train_batch_size": 8, "data_types": {"grad_accum_dtype": "fp32"}, "bf16": {"enabled": false}})",
      R"({"train_micro_batch_size_per_gpu": 2, "communication_data_type": "bf16", "tensorboard": {"enabled": false}})",
  };
  std::filesystem::path const root{ZEROTH_SOURCE_DIR};
  std::vector<std::filesystem::path> files{root / "tests/config/malformed.txt"};
  for (auto const& entry : std::filesystem::directory_iterator{root / "configs"}) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());  // a folder's entries have no defined order
  for (auto const& path : files) {
    std::ifstream file{path, std::ios::binary};
    texts.emplace_back(std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{});
  }
  return texts;
}

/// Meaningful pieces: a text made of them gets further than one of random bytes.
constexpr char const* pieces[] = {"{",
                                  "}",
                                  "[",
                                  "]",
                                  ",",
                                  ":",
                                  "\"",
                                  "\\",
                                  "//",
                                  "/*",
                                  "*/",
                                  "\n",
                                  "null",
                                  "true",
                                  "false",
                                  "\"auto\"",
                                  "-",
                                  "0",
                                  "1",
                                  "1e9",
                                  "1e400",
                                  "-1e-400",
                                  "9223372036854775808",
                                  "0.99999999999",
                                  "\"stage\"",
                                  "\"params\"",
                                  "\"type\"",
                                  "\"bfloat16\"",
                                  "\"enabled\"",
                                  "\"zero_optimization\"",
                                  "\"optimizer\": {\"type\": \"Adam\"}",
                                  "\"\\ud800\"",
                                  "\"fp16\": {\"enabled\": true}",
                                  "[[[[[[[[",
                                  "{\"a\":{\"a\":{\"a\":",
                                  "\xff",
                                  "\xc3",
                                  "\xef\xbb\xbf",
                                  "\x7f",
                                  "\"train_batch_size\": 6,",
                                  "\"gradient_accumulation_steps\": 2147483647,",
                                  "\"WarmupDecayLR\""};

void damage(std::string& text, std::vector<std::string> const& others, Random& random) {
  std::size_t const at = below(random, text.size() + 1);
  std::size_t const count = below(random, 12);
  switch (below(random, 7)) {
    case 0: text.insert(at, pieces[below(random, std::size(pieces))]); break;
    case 1: text.erase(at, count); break;
    case 2: text.replace(at, std::min(count, text.size() - at), pieces[below(random, std::size(pieces))]); break;
    case 3: text.insert(at, text.substr(below(random, text.size() + 1), 4 * count)); break;
    case 4: text.resize(at); break;
    case 5: {
      auto const& other = others[below(random, others.size())];
      text.insert(at, other.substr(below(random, other.size() + 1), 4 * count));
      break;
    }
    default:
      if (at < text.size()) {
        text[at] = static_cast<char>(below(random, 256));
      }
  }
}

/// Replaces a digit by a digit, or a quoted name by another one: most such files are still JSON.
void change_values(std::string& text, Random& random) {
  constexpr char const* values[] = {"true", "null", "\"auto\"", "0",  "3",     "2.5",
                                    "-1",   "1e3",  "\"fp16\"", "{}", "[1, 2]"};
  std::vector<std::size_t> places;
  for (auto at = text.find(": "); at != std::string::npos; at = text.find(": ", at + 1)) {
    places.push_back(at + 2);
  }
  if (!places.empty()) {
    auto const begin = places[below(random, places.size())];
    auto const end = text.find_first_of(",}]\n", begin);
    text.replace(begin, end == std::string::npos ? end : end - begin, values[below(random, std::size(values))]);
  }
}

TEST_CASE("A damaged file is accepted or refused") {
  auto const originals = seeds();
  Random random{20240229};
  int refused = 0;
  int accepted = 0;
  for (int round = 0; round < 8000; ++round) {
    auto text = originals[below(random, originals.size())].substr(0, 3000);
    for (std::size_t times = 1 + below(random, 4); times > 0; --times) {
      if (round % 2 == 0) {
        change_values(text, random);
      } else {
        damage(text, originals, random);
      }
    }
    INFO(text);
    try {
      ++(fuzz_one(text) == Outcome::refused ? refused : accepted);
    } catch (std::exception const& error) {
      FAIL(error.what());
    }
  }
  // Both outcomes were frequent.
  CHECK(refused > 2000);
  CHECK(accepted > 300);
}

TEST_CASE("Endless nesting is rejected") {
  for (auto const* const piece : {"[", "{\"a\":", "[{\"fp16\":"}) {
    std::string text = "{\"train_batch_size\": ";
    for (int i = 0; i < 100'000; ++i) {
      text += piece;
    }
    CHECK(fuzz_one(text) == Outcome::refused);
  }
}

TEST_CASE("Every prefix of a file is refused") {
  for (auto const& text : seeds()) {
    auto const end = text.rfind('}');
    for (std::size_t length = 0; length <= end && length < 1500; length += 7) {
      CHECK(fuzz_one(std::string_view{text}.substr(0, length)) == Outcome::refused);
    }
  }
}

}  // namespace
}  // namespace zeroth::testing
