// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/core/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "core/file_transfer.hpp"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string_view what, int error) {
  throw Unreadable{fmt::format("{}: {}", what, std::generic_category().message(error)), error};
}

void expect_regular(fs::file_type type) {
  std::string_view what;
  switch (type) {
    case fs::file_type::regular: return;
    case fs::file_type::directory: what = "a folder"; break;
    case fs::file_type::fifo: what = "a pipe"; break;
    case fs::file_type::socket: what = "a socket"; break;
    case fs::file_type::block:
    case fs::file_type::character: what = "a device"; break;
    default: what = "no file"; break;
  }
  throw Unreadable{fmt::format("is {}; allowed: a regular file", what)};
}

}  // namespace

InputFile::InputFile(fs::path const& path) {
  std::error_code error;
  auto const status = fs::status(path, error);
  if (error) {
    refuse("cannot be opened", error.value());
  }
  expect_regular(status.type());
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);  // it may be another file by now
  if (descriptor_ < 0) {
    refuse("cannot be opened", errno);
  }
  struct stat opened {};
  if (::fstat(descriptor_, &opened) != 0 || !S_ISREG(opened.st_mode)) {
    ::close(descriptor_);
    expect_regular(fs::file_type::unknown);
  }
  bytes_ = opened.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::go_direct() noexcept { static_cast<void>(zeroth::go_direct(descriptor_)); }

std::size_t InputFile::read_some(std::int64_t position, std::span<std::byte> bytes) const {
  auto const moved = read_all(descriptor_, position, bytes);
  if (moved.error != 0) {
    refuse("cannot be read", moved.error);
  }
  return moved.bytes;
}

void InputFile::read(std::int64_t position, std::span<std::byte> bytes) const {
  if (read_some(position, bytes) < bytes.size()) {
    throw Unreadable{"has become shorter"};
  }
}

std::string read_text(fs::path const& path, std::int64_t largest) {
  InputFile const file{path};
  std::string text;
  constexpr std::int64_t piece = 1 << 16U;
  // Files in /proc report a size of 0, so only reading finds their end.
  for (auto room = std::min(file.bytes() + 1, largest + 1);; room = piece) {
    auto const begin = text.size();
    text.resize(begin + static_cast<std::size_t>(std::max(room, piece)));
    auto const got =
        file.read_some(static_cast<std::int64_t>(begin), std::as_writable_bytes(std::span{text}).subspan(begin));
    bool const ended = begin + got < text.size();
    text.resize(begin + got);
    if (static_cast<std::int64_t>(text.size()) > largest) {
      throw Unreadable{fmt::format("has more than {} bytes, the limit for text files", largest)};
    }
    if (ended) {
      return text;
    }
  }
}

}  // namespace zeroth
