// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "zeroth/config/config.hpp"

namespace {

std::string read(std::filesystem::path const& path) {
  std::ifstream file{path};
  REQUIRE(file);
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// The texts between ```jsonc and ```.
std::vector<std::string> stage_files_in(std::string const& document) {
  static std::string const opening = "\n```jsonc\n";
  std::vector<std::string> found;
  for (auto at = document.find(opening); at != std::string::npos; at = document.find(opening, at)) {
    at += opening.size();
    found.push_back(document.substr(at, document.find("\n```", at) - at));
  }
  return found;
}

}  // namespace

TEST_CASE("stage files quoted in README and docs are accepted") {
  std::filesystem::path const root = ZEROTH_SOURCE_DIR;
  auto const quoted = stage_files_in(read(root / "README.md"));
  REQUIRE(quoted.size() == 1);
  auto const settings = zeroth::Config::from_json(quoted[0]).settings(4, 1000);
  CHECK(settings.stage == 3);
  CHECK(settings.batch.train == 4 * 2 * 4);
  CHECK(settings.precision.compute == zeroth::Dtype::bf16);
  for (auto const& entry : std::filesystem::directory_iterator{root / "docs"}) {
    if (!entry.is_regular_file())
      continue;
    for (auto const& text : stage_files_in(read(entry.path()))) {
      INFO(entry.path() << "\n" << text);
      CHECK_NOTHROW(zeroth::Config::from_json(text));
    }
  }
}

TEST_CASE("every file in configs/ is accepted for up to 64 ranks, and has its stage") {
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator{std::filesystem::path{ZEROTH_SOURCE_DIR} / "configs"}) {
    if (!entry.is_regular_file()) {
      continue;  // machines/
    }
    INFO(entry.path());
    ++files;
    bool const is_for_few = entry.path().stem() == "zero3_any_ranks";  // its batch has 24 samples
    for (int const world : {1, 2, 3, 4, is_for_few ? 24 : 64}) {
      auto const settings = zeroth::Config::from_file(entry.path()).settings(world, 1'000'000);
      // zero2_fp16.json is of stage 2
      auto const name = entry.path().stem().string();
      CHECK((name == "pipeline" || name == "3d" || name.substr(0, 5) == "zero" + std::to_string(settings.stage)));
    }
  }
  CHECK(files >= 7);
}
