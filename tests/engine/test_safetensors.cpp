// SPDX-License-Identifier: Apache-2.0
/// Headers of safetensors files, and texts that only look like headers.
#include "engine/safetensors_reader.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

using Catch::Contains;

std::string tensor(std::string const& name, std::string const& dtype, std::string const& shape, std::int64_t begin,
                   std::int64_t end) {
  return fmt::format(R"("{}": {{"dtype": "{}", "shape": {}, "data_offsets": [{}, {}]}})", name, dtype, shape, begin,
                     end);
}

/// All errors about a header with the name "header".
std::string said_of(std::string const& members) {
  config::Problems problems;
  auto const document = config::read_document("{" + members + "}", problems, config::Comments::refused);
  static_cast<void>(read_header(document, problems));
  return problems.empty() ? "" : problems.text("header");
}

TEST_CASE("Every dtype of the format has its size") {
  struct Row {
    char const* dtype;
    std::int64_t bytes;  // for 8 elements
  };
  for (auto const& [dtype, bytes] :
       {Row{"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8},
        {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32},
        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64}, {"I64", 64}, {"U64", 64}}) {
    INFO(dtype);
    CHECK(said_of(tensor("a", dtype, "[2, 4]", 0, bytes)).empty());
    CHECK_THAT(said_of(tensor("a", dtype, "[2, 4]", 0, bytes + 1)), Contains(fmt::format("takes {}", bytes)));
  }
  CHECK_THAT(said_of(tensor("a", "F4", "[3]", 0, 2)), Contains("of whole bytes"));
}

TEST_CASE("Tensors lie one after another in any order, including empty ones and scalars") {
  CHECK(said_of(tensor("b", "F32", "[2]", 4, 12) + ", " + tensor("a", "F32", "[]", 0, 4) + ", " +
                tensor("none", "F32", "[0, 9223372036854775807]", 12, 12) + R"(, "__metadata__": {"format": "pt"})")
            .empty());
  CHECK(said_of("").empty());
}

TEST_CASE("All problems of a header are reported at once") {
  CHECK(said_of("\"a\": 3, \"b\": {\"dtype\": \"F32\", \"shape\": [1]}, \"c\\u001b\": {\"dtype\": 7}, "
                "\"__metadata__\": {\"x\": 1}") ==
        "header: 4 problems\n"
        "  a: 3; allowed: an object with dtype, shape and data_offsets\n"
        "  b.data_offsets: missing; allowed: two whole numbers of at least 0, begin and end\n"
        "  \"c\\x1b\".dtype: 7; allowed: BOOL, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E5M2, F8_E4M3, F8_E8M0, I16, U16, F16, "
        "BF16, I32, U32, F32, C64, F64, I64, U64\n"
        "  __metadata__: {\"x\": 1}; allowed: an object of strings");
  CHECK_THAT(said_of(tensor("a", "F32", "[1]", 0, 4) + ", " + tensor("a", "F32", "[1]", 4, 8)),
             Contains("given twice"));
  CHECK_THAT(said_of(tensor("a", "F32", "[1]", 4, 8)), Contains("bytes 0 to there belong to no tensor"));
  CHECK_THAT(said_of(tensor("a", "F32", "[4]", 0, 16) + ", " + tensor("b", "F32", "[1]", 4, 8) + ", " +
                     tensor("c", "F32", "[1]", 8, 12)),
             Contains("b: begins at byte 4 of the data, but a ends at 16") &&
                 Contains("c: begins at byte 8 of the data, but a ends at 16"));
  CHECK_THAT(said_of(tensor("a", "U8", "[18446744073709551615]", 0, 4)), Contains("a.shape: [18446744073709551615]"));
  CHECK_THAT(said_of(tensor("a", "U8", "[9223372036854775807]", 0, 9223372036854775807)),
             Contains("of less than 2^63"));
}

TEST_CASE("A header of many tensors is read at once, and of many wrong ones twenty are reported") {
  std::string good;
  std::string wrong;
  int const count = testing::sanitized ? 2'000 : 50'000;
  for (int i = 0; i < count; ++i) {
    auto const* const comma = i == 0 ? "" : ", ";
    good += comma + tensor(fmt::format("layers{}w", i), "F32", "[1]", 4 * i, 4 * i + 4);
    wrong += comma + tensor(fmt::format("layers{}w", i), "F32", "[1]", 0, 4);
  }
  CHECK(said_of(good).empty());
  auto const said = said_of(wrong);
  CHECK_THAT(said, Contains(fmt::format("header: {} problems", count - 1)) &&
                       Contains(fmt::format("and {} more", count - 21)));
  CHECK(said.size() < 5'000);
}

TEST_CASE("Pipes, devices and folders are rejected as weight files") {
  testing::Folder const folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  auto const said = [](std::filesystem::path const& path) {
    return testing::thrown<SystemError>([&] { SafetensorsReader{path}; });
  };
  CHECK(said(folder / "pipe") == (folder / "pipe").string() + ": is a pipe; allowed: a regular file");
  CHECK(said("/dev/zero") == "/dev/zero: is a device; allowed: a regular file");
  CHECK(said(folder.path()) == folder.path().string() + ": is a folder; allowed: a regular file");
}

}  // namespace
}  // namespace zeroth::engine
