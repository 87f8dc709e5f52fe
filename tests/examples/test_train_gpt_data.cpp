// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <numeric>
#include <zeroth/core/error.hpp>

#include "batches.hpp"
#include "corpus.hpp"
#include "files.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

using namespace gpt;
using Catch::Contains;
using zeroth::testing::thrown;

namespace {

std::string text_of(Corpus const& corpus) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(corpus.size()));
  corpus.read(0, bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("a corpus is the bytes of a file") {
  Folder const folder;
  std::string all(300, '\0');
  std::iota(all.begin(), all.end(), '\0');
  CHECK(text_of(Corpus{folder.write("text", all)}) == all);
  CHECK(text_of(Corpus{folder.write("empty", "")}).empty());
}

TEST_CASE("a corpus is the files of a folder in byte order of their relative paths") {
  Folder const folder;
  folder.write("text/b", "2");
  folder.write("text/a/z", "1");
  folder.write("text/a-b", "0");  // '-' comes before '/'
  folder.write("text/a0", "1.5");
  folder.write("text/B", "<");
  folder.write("text/c/empty", "");
  folder.write("text/\xc3\xa9", ">");
  std::filesystem::create_directories(folder / "text/d");
  CHECK(text_of(Corpus{folder / "text"}) == "<011.52>");
  CHECK(text_of(Corpus{folder / "text/"}) == "<011.52>");
}

TEST_CASE("the error about an unreadable corpus names the file and the reason") {
  Folder const folder;
  auto const open = [](auto const& path) { return [path] { Corpus const corpus{path}; }; };
  CHECK_THAT(thrown<zeroth::SystemError>(open(folder / "gone")),
             Contains("--data") && Contains("gone") && Contains("No such file or directory"));
  CHECK_THAT(thrown<zeroth::ConfigError>(open(std::filesystem::path{"/dev/null"})),
             Contains("/dev/null") && Contains("neither a file nor a folder"));
  if (::geteuid() != 0) {  // root may read everything
    auto const closed = folder.write("closed", "text");
    std::filesystem::permissions(closed, std::filesystem::perms::none);
    CHECK_THAT(thrown<zeroth::SystemError>(open(closed)), Contains("closed") && Contains("Permission denied"));
  }
}

TEST_CASE("a corpus whose file becomes shorter or goes away is read as far as it goes") {
  Folder const folder;
  auto const path = folder.write("text", std::string(20000, 'x'));
  Corpus const corpus{path};
  Batches const batches{corpus, 10, Order::sequential, 0};
  Batch batch;
  std::filesystem::resize_file(path, 5000);
  batches.read(0, 499, batch);  // up to byte 4990
  CHECK_THAT(thrown<zeroth::SystemError>([&] { batches.read(499, 1, batch); }),
             Contains("--data") && Contains(path.string() + ": had 20000 bytes when it was opened, but has 5000 now"));
  std::filesystem::remove(path);
  batches.read(0, 499, batch);  // it is open
  CHECK(batch.inputs == std::vector<std::uint8_t>(4990, 'x'));
}

TEST_CASE("a corpus has as many sequences as fit, each with one more byte to predict") {
  Folder const folder;
  struct Row {
    std::size_t bytes;
    std::int64_t sequences;
  };
  for (auto const& row : {Row{5, 1}, Row{8, 1}, Row{9, 2}, Row{12, 2}, Row{13, 3}}) {
    INFO(row.bytes << " bytes");
    Corpus const corpus{folder.write("text", std::string(row.bytes, 'x'))};
    CHECK(Batches(corpus, 4, Order::sequential, 0).sequences() == row.sequences);
  }
  Corpus const corpus{folder.write("text", "four")};
  CHECK_THAT(thrown<zeroth::ConfigError>([&] { Batches(corpus, 4, Order::sequential, 0); }),
             Contains("has 4 bytes") && Contains("--context 4 takes 5"));
}

TEST_CASE("sequential samples follow the formula, modulo the number of sequences") {
  Folder const folder;
  std::string text(50, '\0');
  std::iota(text.begin(), text.end(), '\0');
  Corpus const corpus{folder.write("text", text)};
  std::int64_t const context = 6, sequences = 8;  // 49 / 6: byte 49 is never used
  Batches const batches{corpus, context, Order::sequential, 1};
  REQUIRE(batches.sequences() == sequences);
  std::int64_t const micro = 2, accumulation = 3, world = 2, global = micro * accumulation * world;
  Batch batch;
  for (std::int64_t s = 0; s < 3; ++s) {
    for (std::int64_t m = 0; m < accumulation; ++m) {
      for (std::int64_t r = 0; r < world; ++r) {
        batches.read(s * global + m * world * micro + r * micro, micro, batch);
        REQUIRE(std::ssize(batch.inputs) == micro * context);
        REQUIRE(std::ssize(batch.targets) == micro * context);
        for (std::int64_t row = 0; row < micro; ++row) {
          auto const i = (s * global + m * world * micro + r * micro + row) % sequences;
          for (std::int64_t t = 0; t < context; ++t) {
            auto const at = static_cast<std::size_t>(row * context + t);
            CHECK(batch.inputs[at] == i * context + t);
            CHECK(batch.targets[at] == i * context + t + 1);
          }
        }
      }
    }
  }
}

TEST_CASE("shuffled samples are read in the library's order") {
  Folder const folder;
  std::string text(101, '\0');
  std::iota(text.begin(), text.end(), '\0');
  Corpus const corpus{folder.write("text", text)};
  Batches const batches{corpus, 2, Order::shuffled, 5};
  zeroth::SampleOrder const order{50, {.seed = 5, .shuffled = true}};
  CHECK(batches.order() == order);
  Batch batch;
  batches.read(30, 40, batch);  // into the second epoch
  for (std::int64_t i = 0; i < 40; ++i) {
    CHECK(batch.inputs[static_cast<std::size_t>(2 * i)] == 2 * order[30 + i]);
  }
}

TEST_CASE("reading a batch again allocates nothing") {
  Folder const folder;
  Corpus const corpus{folder.write("text", std::string(1000, 'x'))};
  Batches const batches{corpus, 10, Order::shuffled, 0};
  Batch batch;
  batches.read(0, 8, batch);
  auto const* const inputs = batch.inputs.data();
  auto const* const targets = batch.targets.data();
  batches.read(95, 8, batch);
  CHECK(batch.inputs.data() == inputs);
  CHECK(batch.targets.data() == targets);
}
