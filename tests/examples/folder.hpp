/// A folder of its own for one test, removed with all that is in it.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace gpt {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "train_gpt.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    auto const file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file, std::ios::binary} << text;
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_all(std::filesystem::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// What `f` throws as an E, or what it does instead.
template <class E, class F>
std::string message_of(F const& f) {
  try {
    f();
  } catch (E const& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace gpt
