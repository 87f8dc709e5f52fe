// SPDX-License-Identifier: Apache-2.0
#include "whole_folder.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/whole_file.hpp>

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(fs::path const& path, std::string const& why) {
  throw SystemError{fmt::format("{}: {}", path.string(), why)};
}

}  // namespace

WholeFolder::WholeFolder(fs::path path) : path_{std::move(path)} {
  target_ = followed(path_.has_filename() ? path_ : path_.parent_path());  // "a/" is the same as "a"
  std::error_code error;
  if (fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
    refuse(path_, "exists already; allowed: a new or an empty folder");
  }
  auto partial = partial_beside(target_);
  error.clear();
  if (partial.has_parent_path()) {
    fs::create_directories(partial.parent_path(), error);
  }
  if (error || !fs::create_directory(partial, error)) {
    refuse(path_, "cannot be created: " + error.message());
  }
  partial_ = std::move(partial);
}

WholeFolder::~WholeFolder() {
  if (!partial_.empty()) {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
}

void WholeFolder::publish() {
  std::error_code error;
  if (int const not_synced = sync_folder(partial_); not_synced != 0) {
    error = {not_synced, std::generic_category()};
  } else {
    fs::rename(partial_, target_, error);  // replaces an empty folder, but no other
  }
  if (error) {
    refuse(path_, "cannot be put into place: " + error.message());
  }
  partial_.clear();
  auto const parent = target_.has_parent_path() ? target_.parent_path() : fs::path{"."};
  if (int const not_synced = sync_folder(parent); not_synced != 0) {
    refuse(path_, "is written, but may not be on the disk yet: " + std::generic_category().message(not_synced));
  }
}

}  // namespace zeroth::tools
