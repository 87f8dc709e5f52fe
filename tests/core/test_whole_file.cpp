#include "core/whole_file.hpp"

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

std::string text_of(fs::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}
auto files_in(fs::path const& folder) {
  return std::distance(fs::directory_iterator{folder}, fs::directory_iterator{});
}

TEST_CASE("A whole file takes the place of what was there, and nothing else stays") {
  testing::Folder const folder;
  auto const file = folder.path() / "a b.json";
  for (std::string const text : {"first, and longer\n", "second", "", "with a \n and a \r"}) {
    write_whole_file("page", file, text);
    CHECK(text_of(file) == text);
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("A file that cannot be written is refused by name, and leaves nothing") {
  testing::Folder const folder;
  CHECK(testing::thrown<SystemError>([&] { write_whole_file("page", folder.path() / "gone/page", "text"); }) ==
        "page " + (folder.path() / "gone/page").string() + ": cannot be written: No such file or directory");
  fs::create_directory(folder.path() / "folder");
  std::ofstream{folder.path() / "folder" / "full"};
  CHECK(testing::thrown<SystemError>([&] { write_whole_file("page", folder.path() / "folder", "text"); }) ==
        "page " + (folder.path() / "folder").string() + ": cannot be written: Is a directory");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("Where only half of it fits, the file that was there stays") {
  testing::Folder const folder;
  auto const file = folder.path() / "page";
  write_whole_file("page", file, "before");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto const ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit const small{1000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  auto const message = testing::thrown<SystemError>([&] { write_whole_file("page", file, std::string(100'000, 'x')); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, ignored);
  CHECK(message == "page " + file.string() + ": cannot be written: File too large");
  CHECK(text_of(file) == "before");
  CHECK(files_in(folder.path()) == 1);
}

}  // namespace
}  // namespace zeroth
