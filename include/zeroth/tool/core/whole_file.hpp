// SPDX-License-Identifier: Apache-2.0
/// Files that are there as a whole or not at all.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// What a file that was published is safe from: the end of this process, or that of the machine too, which takes as
/// long as its disk does.
enum class Outlives : bool { process, machine };

/// A file in the making, beside its place under a name that nobody can guess, so that nobody ever reads half of it
/// under its own name, nor loses what was there before, nor meets another job that writes to the same place. A symbolic
/// link is followed, and its target replaced. What is no file, say /dev/stdout or a pipe, is opened and written as it
/// is: it is never replaced.
///
/// Everything throws SystemError: `what` the file is, its path, and the reason. For one thread at a time.
class ZEROTH_EXPORT WholeFile {
 public:
  /// Opens it; nothing is at `path` yet.
  WholeFile(std::string_view what, std::filesystem::path path);
  WholeFile(WholeFile const&) = delete;
  WholeFile& operator=(WholeFile const&) = delete;
  ~WholeFile();  ///< Removes what was not published.
  /// Handed to the system when this returns, all of it: who reads along sees whole pieces.
  void write(std::span<std::byte const> bytes);
  /// The same of a text.
  void write(std::string_view text) { write(std::as_bytes(std::span{text})); }
  /// To the disk, unless this process is all that it has to outlive, and to its name. The last call.
  void publish(Outlives outlives = Outlives::machine);

 private:
  void open(std::filesystem::file_type type);
  void close() noexcept;
  [[noreturn]] void refuse(std::string_view reason) const;
  [[noreturn]] void refuse(int error) const;

  std::string what_;
  std::filesystem::path path_, target_;
  std::filesystem::path partial_;  // empty: what is written needs no other name
  int descriptor_ = -1;
};

/// One that is known already.
ZEROTH_EXPORT void write_whole_file(std::string_view what, std::filesystem::path const& path, std::string_view text,
                                    Outlives outlives = Outlives::machine);

/// What `path` leads to: itself, or the end of a chain of symbolic links, whether anything is there or not.
[[nodiscard]] ZEROTH_EXPORT std::filesystem::path followed(std::filesystem::path path);
/// A name beside `path` that nobody else uses or can guess: "model.<16 digits>.partial".
[[nodiscard]] ZEROTH_EXPORT std::filesystem::path partial_beside(std::filesystem::path const& path);
/// Names in `folder` are on the disk when this returns. 0, or the errno that says why not.
[[nodiscard]] ZEROTH_EXPORT int sync_folder(std::filesystem::path const& folder) noexcept;

}  // namespace zeroth
