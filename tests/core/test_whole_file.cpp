// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/core/whole_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
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

TEST_CASE("A whole file replaces the earlier one, and leaves nothing else") {
  testing::Folder const folder;
  auto const file = folder.path() / "a b.json";
  for (std::string const text : {"first, and longer\n", "second", "", "with a \n and a \r"}) {
    write_whole_file("page", file, text);
    CHECK(text_of(file) == text);
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("The error about an unwritable file names it, and nothing is left") {
  testing::Folder const folder;
  CHECK(testing::thrown<SystemError>([&] { write_whole_file("page", folder.path() / "gone/page", "text"); }) ==
        "page " + (folder.path() / "gone/page").string() + ": cannot be written: No such file or directory");
  fs::create_directory(folder.path() / "folder");
  std::ofstream{folder.path() / "folder" / "full"};
  CHECK(testing::thrown<SystemError>([&] { write_whole_file("page", folder.path() / "folder", "text"); }) ==
        "page " + (folder.path() / "folder").string() + ": cannot be written: Is a directory");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("The earlier file stays if only half of the new one fits") {
  testing::Folder const folder;
  auto const file = folder.path() / "page";
  write_whole_file("page", file, "before");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit const small{1000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  auto const message = testing::thrown<SystemError>([&] { write_whole_file("page", file, std::string(100'000, 'x')); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(message == "page " + file.string() +
                       ": cannot be written: File too large (files of this process may have 1000 bytes: ulimit -f)");
  CHECK(text_of(file) == "before");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("Until it is published a file has a unique temporary name, and leaves none behind") {
  testing::Folder const folder;
  auto const file = folder.path() / "page";
  write_whole_file("page", file, "before");
  {
    WholeFile first{"page", file};
    WholeFile second{"page", file};
    first.write("one");
    second.write("two");
    CHECK(files_in(folder.path()) == 3);
    for (auto const& entry : fs::directory_iterator{folder.path()}) {
      auto const name = entry.path().filename().string();
      CHECK(name.starts_with("page"));
      CHECK((name == "page" || (name.size() == 29 && name.ends_with(".partial"))));
    }
    CHECK(text_of(file) == "before");
    first.publish();
    CHECK(text_of(file) == "one");
  }
  CHECK(text_of(file) == "one");
  CHECK(files_in(folder.path()) == 1);
  std::string const longest(255, 'x');
  write_whole_file("page", folder.path() / longest, "text");
  CHECK(text_of(folder.path() / longest) == "text");
}

TEST_CASE("A link stays a link, and its target is replaced") {
  testing::Folder const folder;
  fs::create_directory(folder / "elsewhere");
  fs::create_symlink("elsewhere/second", folder / "link");
  fs::create_symlink("page", folder / "elsewhere/second");  // a link to a link, whose target does not exist yet
  for (std::string const text : {"first", "second"}) {
    write_whole_file("page", folder / "link", text);
    CHECK(fs::is_symlink(folder / "link"));
    CHECK(fs::is_symlink(folder / "elsewhere/second"));
    CHECK(text_of(folder / "elsewhere/page") == text);
  }
  CHECK(files_in(folder.path()) == 2);
  CHECK(files_in(folder / "elsewhere") == 2);
  fs::create_symlink("round", folder / "round");
  CHECK(testing::thrown<SystemError>([&] { write_whole_file("page", folder / "round", "text"); }) ==
        "page " + (folder / "round").string() + ": cannot be written: Too many levels of symbolic links");
}

TEST_CASE("A pipe is written, not replaced, and rejected if it has no reader") {
  testing::Folder const folder;
  auto const pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(testing::thrown<SystemError>([&] { write_whole_file("page", pipe, "text"); }) ==
        "page " + pipe.string() + ": cannot be written: the pipe has no reader");
  int const reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_whole_file("page", pipe, "text");
  std::array<char, 8> got{};
  CHECK(::read(reader, got.data(), got.size()) == 4);
  CHECK(std::string{got.data()} == "text");
  ::close(reader);
  CHECK(fs::is_fifo(pipe));
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("A device is written, not replaced, also through a link") {
  int const terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  std::string const device = ::ptsname(terminal);
  int const kept_open = ::open(device.c_str(), O_RDWR | O_NOCTTY);  // otherwise written text is gone when its writer
                                                                    // ends
  write_whole_file("page", device, "text");
  std::array<char, 8> got{};
  CHECK(::read(terminal, got.data(), got.size()) == 4);
  CHECK(std::string{got.data()} == "text");
  CHECK(fs::is_character_file(device));
  ::close(kept_open);
  ::close(terminal);

  testing::Folder const folder;
  fs::create_symlink("/dev/full", folder / "full");
  CHECK(testing::thrown<SystemError>([&] { write_whole_file("page", folder / "full", "text"); }) ==
        "page " + (folder / "full").string() + ": cannot be written: No space left on device");
  CHECK(fs::is_symlink(folder / "full"));
  CHECK(fs::is_character_file(folder / "full"));
}

}  // namespace
}  // namespace zeroth
