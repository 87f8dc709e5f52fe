// SPDX-License-Identifier: Apache-2.0
/// Files that are read: nothing but regular ones, so that no pipe or device holds a program up or never ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Why a file cannot be read: "cannot be opened: No such file or directory", "is a pipe; allowed: a regular file".
/// Without its name, which who catches it adds: no message to users by itself.
struct ZEROTH_EXPORT Unreadable final : std::runtime_error {
  /// `system_error` is the errno of the call that failed, if one did.
  explicit Unreadable(std::string const& what, int system_error = 0) : std::runtime_error{what}, error{system_error} {}
  int error;  ///< The system's errno; 0 where what the file is, or has, is the reason.
};

/// Throws Unreadable. Any number of threads may read.
class ZEROTH_EXPORT InputFile {
 public:
  /// Opens it.
  explicit InputFile(std::filesystem::path const& path);
  InputFile(InputFile const&) = delete;
  InputFile& operator=(InputFile const&) = delete;
  ~InputFile();
  /// From now on past the system's cache, where the file system lets it: then positions, sizes and memory are to be
  /// multiples of 4096 bytes, but for a size that goes beyond the end.
  void go_direct() noexcept;
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }  ///< When it was opened.
  /// All of `bytes`, from `position` on.
  void read(std::int64_t position, std::span<std::byte> bytes) const;
  /// What there is, at most all of `bytes`, and returns how much.
  [[nodiscard]] std::size_t read_some(std::int64_t position, std::span<std::byte> bytes) const;

 private:
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

/// Bytes of a text that is kept as a whole: more is no file that anybody wrote for this library.
inline constexpr std::int64_t largest_text = 100'000'000;

/// All of it, up to `largest` bytes. Throws Unreadable.
[[nodiscard]] ZEROTH_EXPORT std::string read_text(std::filesystem::path const& path,
                                                  std::int64_t largest = largest_text);

}  // namespace zeroth
