// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/checkpoint/removal.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "checkpoint/commit.hpp"
#include "checkpoint/use_lock.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::checkpoint {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(fs::path const& path, std::error_code const& error) {
  throw SystemError{fmt::format("checkpoint {}: cannot be removed: {}", path.string(), error.message())};
}

void delete_tree(fs::path const& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    refuse(path, error);
  }
}

/// The step up to which checkpoints belong to the last run: that of `latest`, or all steps without one.
std::int64_t newest_step(fs::path const& folder) {
  auto const latest = latest_in(folder);
  auto const step = latest ? step_of(*latest) : std::nullopt;
  return step.value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

bool remove_checkpoint(fs::path const& checkpoint) {
  UseLock const lock{checkpoint, UseLock::By::remover};
  if (lock.taken()) {
    return false;
  }
  auto leaving = checkpoint;
  leaving += leaving_suffix;
  std::error_code error;
  fs::rename(checkpoint, leaving, error);
  if (error) {
    refuse(checkpoint, error);
  }
  delete_tree(leaving);
  return true;
}

Removal remove_unneeded(fs::path const& folder, RemovalOptions const& options) {
  std::optional<FolderLock> lock;
  if (!options.dry_run) {
    lock.emplace(folder, "zeroth checkpoint gc");
  }
  Removal result;
  for (auto& path : leftovers_in(folder)) {
    if (!options.dry_run) {
      delete_tree(path);
    }
    result.removed.push_back(std::move(path));
  }
  KnownFiles known;
  for (auto& checkpoint : unneeded_in(folder, newest_step(folder), options.retention, known)) {
    bool const removed = options.dry_run || remove_checkpoint(checkpoint);
    (removed ? result.removed : result.in_use).push_back(std::move(checkpoint));
  }
  return result;
}

}  // namespace zeroth::checkpoint
