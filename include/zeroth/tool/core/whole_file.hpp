// SPDX-License-Identifier: Apache-2.0
/// Atomically written files.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// The events that a published file survives: the exit of this process, or also a crash of the machine, for which
/// publishing waits for the disk.
enum class Outlives : bool { process, machine };

/// Writes a file under a unique temporary name next to its path, and renames it. Readers never see a partial file, a
/// failed write keeps the old one, and concurrent jobs do not collide. Follows symbolic links, and replaces their
/// target. A path that is not a regular file, such as /dev/stdout or a pipe, is written directly and never replaced.
///
/// All functions throw SystemError with `what` the file is, its path, and the reason. Use it on one thread at a time.
class ZEROTH_EXPORT WholeFile {
 public:
  /// Opens the temporary file. Nothing is at `path` yet.
  WholeFile(std::string_view what, std::filesystem::path path);
  WholeFile(WholeFile const&) = delete;
  WholeFile& operator=(WholeFile const&) = delete;
  ~WholeFile();  ///< Removes the file if it was not published.
  /// Passes all of `bytes` to the system before it returns. A concurrent reader sees complete pieces.
  void write(std::span<std::byte const> bytes);
  /// Writes a text.
  void write(std::string_view text) { write(std::as_bytes(std::span{text})); }
  /// Syncs the file to disk, unless it needs to outlive only this process, and gives it its name. Must be the last
  /// call.
  void publish(Outlives outlives = Outlives::machine);

 private:
  void open(std::filesystem::file_type type);
  void close() noexcept;
  [[noreturn]] void refuse(std::string_view reason) const;
  [[noreturn]] void refuse(int error) const;

  std::string what_;
  std::filesystem::path path_, target_;
  std::filesystem::path partial_;  // empty if no other name is needed
  int descriptor_ = -1;
};

/// Writes a file whose whole text is known.
ZEROTH_EXPORT void write_whole_file(std::string_view what, std::filesystem::path const& path, std::string_view text,
                                    Outlives outlives = Outlives::machine);

/// Resolves `path`: returns it, or the end of a chain of symbolic links, whether or not that exists.
[[nodiscard]] ZEROTH_EXPORT std::filesystem::path followed(std::filesystem::path path);
/// A unique, unpredictable name next to `path`: "model.<16 digits>.partial".
[[nodiscard]] ZEROTH_EXPORT std::filesystem::path partial_beside(std::filesystem::path const& path);
/// Syncs the names in `folder` to disk. Returns 0, or errno on failure.
[[nodiscard]] ZEROTH_EXPORT int sync_folder(std::filesystem::path const& folder) noexcept;

}  // namespace zeroth
