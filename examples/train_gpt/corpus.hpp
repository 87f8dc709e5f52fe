/// The text: bytes of a file, or of all files of a folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace gpt {

/// A file is mapped, so that all processes of a machine share its pages. The files of a folder (and of the folders in
/// it) are read one behind the other, in byte order of their paths relative to it. Immutable: may be shared by threads.
class Corpus {
 public:
  /// Throws ConfigError if `path` is neither, SystemError if something cannot be read.
  explicit Corpus(std::filesystem::path path);
  Corpus(Corpus const&) = delete;
  Corpus& operator=(Corpus const&) = delete;
  ~Corpus();
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  [[nodiscard]] std::span<std::uint8_t const> bytes() const noexcept { return bytes_; }

 private:
  std::filesystem::path path_;
  std::vector<std::uint8_t> memory_;     ///< Of a folder.
  std::span<std::uint8_t const> bytes_;  ///< Of `memory_`, or a mapping of a file.
};

}  // namespace gpt
