// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/core/input_file.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/thrown.hpp"

namespace zeroth {
namespace {

std::string reason(std::filesystem::path const& path) {
  return testing::thrown<Unreadable>([&] { return read_text(path); });
}

TEST_CASE("Texts are read whole, also through a link and from /proc, whose files have no length") {
  testing::Folder const folder;
  for (std::size_t const bytes : {0U, 1U, 65535U, 65536U, 65537U, 200'000U}) {
    std::string text(bytes, 'x');
    for (std::size_t i = 0; i < bytes; ++i) {
      text[i] = static_cast<char>('a' + i % 7);
    }
    std::ofstream{folder / "text", std::ios::binary} << text;
    CHECK((read_text(folder / "text") == text));
  }
  std::filesystem::create_symlink("text", folder / "link");
  CHECK(read_text(folder / "link").size() == 200'000);
  CHECK(read_text("/proc/self/status").starts_with("Name:"));
}

TEST_CASE("A path that is not a regular file is rejected at once with its kind") {
  testing::Folder const folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
  int const listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0);
  CHECK(reason(folder / "pipe") == "is a pipe; allowed: a regular file");
  CHECK(reason(folder / "socket") == "is a socket; allowed: a regular file");
  CHECK(reason(folder.path()) == "is a folder; allowed: a regular file");
  CHECK(reason("/dev/zero") == "is a device; allowed: a regular file");
  CHECK(reason(folder / "gone") == "cannot be opened: No such file or directory");
  ::close(listener);
}

TEST_CASE("A file above the limit for texts, and one that becomes shorter, are rejected") {
  testing::Folder const folder;
  std::ofstream{folder / "long"} << "x";
  std::filesystem::resize_file(folder / "long", static_cast<std::uintmax_t>(largest_text) + 1);  // a hole
  CHECK(reason(folder / "long") == "has more than 100000000 bytes, the limit for text files");
  InputFile const file{folder / "long"};
  CHECK(file.bytes() == largest_text + 1);
  std::filesystem::resize_file(folder / "long", 10);
  std::vector<std::byte> bytes(11);
  CHECK(testing::thrown<Unreadable>([&] { file.read(0, bytes); }) == "has become shorter");
  CHECK(file.read_some(0, bytes) == 10);
}

}  // namespace
}  // namespace zeroth
