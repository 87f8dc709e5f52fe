#include "core/whole_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

/// 0, or why not.
int write_file(std::string const& path, std::string_view text) {
  errno = 0;
  std::ofstream file{path, std::ios::binary | std::ios::trunc};
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file ? 0 : (errno != 0 ? errno : EIO);
}

}  // namespace

void write_whole_file(std::string_view what, std::filesystem::path const& path, std::string_view text) {
  auto const partial = fmt::format("{}.{}.part", path.string(), ::getpid());
  auto error = write_file(partial, text);
  if (error == 0 && std::rename(partial.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    static_cast<void>(std::remove(partial.c_str()));
    throw SystemError{
        fmt::format("{} {}: cannot be written: {}", what, path.string(), std::generic_category().message(error))};
  }
}

}  // namespace zeroth
