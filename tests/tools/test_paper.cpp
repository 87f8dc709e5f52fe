// SPDX-License-Identifier: Apache-2.0
/// Text laid out for a width.
#include <string>

#include "paper.hpp"
#include "support/catch.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

Paper paper_of(int columns, bool has_colours = false) {
  return Paper{{.is_there = true, .has_colours = has_colours, .columns = columns}};
}

TEST_CASE("lines that fit, and all lines without a known width, are unchanged") {
  std::string const text = "a line\n\n  another one   with gaps\nwithout an end";
  CHECK(fold(text, {}) == text);
  CHECK(fold(text, paper_of(27)) == text);
  CHECK(fold("", paper_of(5)).empty());
}

TEST_CASE("a line that is too wide continues two blanks further in, or below its second column") {
  CHECK(fold("one two three four\n", paper_of(9)) == "one two\n  three\n  four\n");
  CHECK(fold("  one two three\n", paper_of(9)) == "  one two\n    three\n");
  CHECK(fold("memory   57 GiB left, of 62 GiB\n", paper_of(20)) ==
        "memory   57 GiB\n         left, of 62\n         GiB\n");
  CHECK(fold("a.long.name      = 3  (default)\n", paper_of(26)) == "a.long.name  = 3\n  (default)\n");
  CHECK(fold("a.long.name      = 3  (file)\n", paper_of(26)) == "a.long.name  = 3  (file)\n");
  CHECK(fold("anunbreakableword then\n", paper_of(5)) == "anunbreakableword\n  then\n");
}

TEST_CASE("colours have no width, and characters of several bytes have the width of one") {
  auto const paper = paper_of(11, true);
  CHECK(paper.good("could") == "\x1b[32mcould\x1b[0m");
  CHECK(paper_of(11).bad("could") == "could");
  CHECK(fold(paper.good("could") + " start\n", paper) == "\x1b[32mcould\x1b[0m start\n");
  CHECK(fold("\u00e4\u00f6\u00fc\u00e4 \u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\n", paper) ==
        "\u00e4\u00f6\u00fc\u00e4 \u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\n");
}

TEST_CASE("a table that is too wide has its columns below each other, next to the first") {
  std::vector<Row> const rows{
      {"", "first", "second", "third"}, {"stage 0", "1", "2", "3"}, {"stage 1", "refused"}, {"stage 2", "4", "5", "6"}};
  auto const whole =
      "         first  second  third\n"
      "stage 0      1       2      3\n"
      "stage 1  refused\n"
      "stage 2      4       5      6\n";
  CHECK(aligned(rows) == whole);
  CHECK(aligned(rows, paper_of(29)) == whole);
  CHECK(aligned(rows, paper_of(28)) ==
        "         first  second\n"
        "stage 0      1       2\n"
        "stage 1  refused\n"
        "stage 2      4       5\n"
        "\n"
        "         third\n"
        "stage 0      3\n"
        "stage 2      6\n");
  CHECK(aligned(rows, paper_of(3)).ends_with("\n         third\nstage 0      3\nstage 2      6\n"));
}

}  // namespace
}  // namespace zeroth::tools
