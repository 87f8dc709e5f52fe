/// A file that exists under its name only once it is complete.
#pragma once
#include <filesystem>
#include <string_view>

namespace gpt {

/// Written beside its place as "<path>.partial". If it ends without publish(), what was written stays there.
/// Everything throws SystemError, naming the file and the reason: a full disk is an error, never a shorter file.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;
  ~OutputFile();
  /// In the file when this returns, all of it: who reads along sees whole pieces.
  void write(std::string_view text);
  /// To the disk and to its name. The last call.
  void publish();

 private:
  std::filesystem::path path_, partial_;
  int descriptor_;
};

}  // namespace gpt
