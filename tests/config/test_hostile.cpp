// SPDX-License-Identifier: Apache-2.0
/// Malicious texts: deep, endless, full of keys, or with control characters for terminals.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "config/config_support.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"
#include "zeroth/tool/config/document.hpp"

namespace zeroth {
namespace {

using Catch::Contains;
using testing::problems_of;

std::string repeated(std::string const& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) {
    text += piece;
  }
  return text;
}

/// `count` unknown keys, each on a line.
std::string keys(int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}\"no such key {}\": {}", i == 0 ? "" : ",\n", i, i);
  }
  return text + R"(, "optimizer": {"type": "SGD"}, "zeroth": {"strict": true}})";
}

TEST_CASE("Nesting beyond 32 levels is rejected, however deep a text is") {
  for (std::string const open : {"[", "{\"a\":", "[{\"a\":"}) {
    CHECK_THAT(problems_of("{\"train_batch_size\": " + repeated(open, 200'000)),
               Contains("not valid JSON: nested deeper than 32 levels"));
  }
}

TEST_CASE("Of many problems twenty are reported and the others counted") {
  int const count = testing::sanitized ? 2'000 : 50'000;
  auto const more = fmt::format("\n  and {} more", count - 20);
  auto const message = problems_of(keys(count));
  CHECK(std::ranges::count(message, '\n') == 20);
  CHECK_THAT(message, Catch::StartsWith("  \"no such key 0\" (line 1): unknown key, with value 0; "));
  CHECK_THAT(message, Contains("\n  \"no such key 19\" (line 20): ") && Catch::EndsWith(more));
  CHECK(message.size() < 10'000);
  CHECK_THAT(problems_of("{" + repeated("\"a\": 1, ", count) + "\"a\": 1}"), Catch::EndsWith(more));
}

TEST_CASE("The report of a truncated text with many problems says that it is truncated") {
  CHECK_THAT(problems_of("{" + repeated("\"a\": 1, ", 99) + "\"a\"}"),
             Contains("not valid JSON") && Catch::EndsWith("\n  and 79 more"));
}

TEST_CASE("A message does not grow with the text") {
  std::string const digits(1'000'000, '1');
  CHECK(problems_of("{\"train_batch_size\": " + digits + "}").size() < 300);
  CHECK(problems_of("{\"train_batch_size\": " + digits + "e" + digits + "}").size() < 500);
  CHECK(problems_of("{" + std::string(1'000'000, '\n') + "]").size() < 2'000);
  CHECK(problems_of("{\"train_batch_size\": \"" + digits + "\"}").size() < 300);
  CHECK(problems_of("{\"" + digits + "\": 1}").size() < 1'000);
}

TEST_CASE("Text after the object is rejected, and a NUL does not end the text") {
  CHECK_THAT(problems_of(R"({"train_batch_size": 8} {})"), Contains("line 1, column 25: not valid JSON"));
  CHECK(problems_of(std::string("{\"train_batch_size\": 8}\0{", 24)) ==
        "  line 1, column 24: not valid JSON: a NUL byte");
  CHECK(problems_of(std::string("{\n\0", 3)) == "  line 2, column 1: not valid JSON: a NUL byte");
}

TEST_CASE("Control characters are escaped in messages: in keys, values and the parser's texts") {
  for (std::string const evil : {"\\u001b[2J", "\\u009b2J", "\\u202e", "\\u2066", "\\u0007", "\\u007f"}) {
    auto const message =
        problems_of(testing::file_with("\"" + evil + "\": \"" + evil + "\", \"zeroth\": {\"strict\": true}"));
    INFO(message);
    for (char const* const sent : {"\x1b", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\x07", "\x7f"}) {
      CHECK(message.find(sent) == std::string::npos);
    }
    CHECK_THAT(message, Contains("\\x"));
  }
  CHECK(problems_of("{\"\x9b\": 1}").find('\x9b') == std::string::npos);
  CHECK(problems_of("{\"\xe2\x80\xae\" 1}").find("\xe2\x80\xae") == std::string::npos);
}

TEST_CASE("Problems name the file, and pipes and devices are rejected as files") {
  testing::Folder const folder;
  auto const refusal = [&](std::string const& text) {
    std::ofstream{folder / "stage.json", std::ios::binary} << text;
    return testing::thrown<ConfigError>([&] { return Config::from_file(folder / "stage.json"); });
  };
  CHECK_THAT(refusal("{\"\xff\": 1}"), Catch::StartsWith((folder / "stage.json").string() + ": 1 problem\n"));
  CHECK_THAT(refusal("{\"train_batch_size\": 1e999999}"), Catch::StartsWith((folder / "stage.json").string()));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  auto const refused = [](std::filesystem::path const& path) {
    return testing::thrown<ConfigError>([&] { return Config::from_file(path); });
  };
  CHECK(refused(folder / "pipe") == (folder / "pipe").string() + ": 1 problem\n  is a pipe; allowed: a regular file");
  CHECK(refused("/dev/zero") == "/dev/zero: 1 problem\n  is a device; allowed: a regular file");
}

TEST_CASE("Comments are rejected in files that may have none") {
  config::Problems problems;
  CHECK(config::read_document("{} // no", problems, config::Comments::refused).empty());
  CHECK(problems.about_the_whole());
}

}  // namespace
}  // namespace zeroth
