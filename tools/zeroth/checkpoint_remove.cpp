// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_remove.hpp"

#include <fmt/format.h>

#include <map>
#include <system_error>

#include <zeroth/checkpoint/folder.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/utf8.hpp>

#include "checkpoint_list.hpp"
#include "readable.hpp"
#include "safe_json.hpp"

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Without a slash at its end, so that it has a name.
fs::path named(fs::path const& path) { return path.has_filename() ? path : path.parent_path(); }

/// Throws SystemError if `checkpoint` may not be removed.
void expect_removable(fs::path const& checkpoint) {
  auto const refuse = [&](std::string const& why) {
    throw SystemError{fmt::format("checkpoint {}: {}", checkpoint.string(), why)};
  };
  auto const name = checkpoint.filename().string();
  if (!checkpoint::step_of(name)) {
    refuse(fmt::format("is not named like a checkpoint; allowed: paths that end in a name such as {}",
                       checkpoint::checkpoint_name(1000)));
  }
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(checkpoint, error))) {
    refuse("is not a folder");
  }
  auto const folder = checkpoint.has_parent_path() ? checkpoint.parent_path() : fs::path{"."};
  if (checkpoint::latest_in(folder) == name) {
    refuse(fmt::format("is the one that {} names, from which jobs resume; allowed: others",
                       (folder / checkpoint::latest_name).string()));
  }
}

}  // namespace

Removed remove(std::vector<fs::path> const& checkpoints) {
  for (auto const& checkpoint : checkpoints) {
    expect_removable(named(checkpoint));
  }
  Removed result;
  for (auto const& each : checkpoints) {
    auto const path = named(each);
    auto const bytes = bytes_in(path);
    if (checkpoint::remove_checkpoint(path)) {
      result.removed.push_back({path, bytes});
    } else {
      result.in_use.push_back(path);
    }
  }
  return result;
}

Removed collect_garbage(fs::path const& folder, checkpoint::RemovalOptions const& options) {
  static_cast<void>(list(folder));  // throws if it is not a folder of checkpoints
  auto planned = options;
  planned.dry_run = true;
  std::map<fs::path, std::int64_t> bytes;
  for (auto const& path : checkpoint::remove_unneeded(folder, planned).removed) {
    bytes[path] = bytes_in(path);
  }
  auto const done = checkpoint::remove_unneeded(folder, options);
  Removed result{options.dry_run, {}, done.in_use};
  for (auto const& path : done.removed) {
    result.removed.push_back({path, bytes[path]});
  }
  return result;
}

std::string as_text(Removed const& removed) {
  std::int64_t all = 0;
  std::string lines;
  for (auto const& [path, bytes] : removed.removed) {
    all += bytes;
    lines += fmt::format("  {}: {}\n", escaped(path.string()), readable_bytes(bytes));
  }
  auto text = removed.removed.empty()
                  ? std::string{"nothing to remove\n"}
                  : fmt::format("{} {} in {}\n{}", removed.dry_run ? "would remove" : "removed", readable_bytes(all),
                                counted(std::ssize(removed.removed), "folder"), lines);
  for (auto const& path : removed.in_use) {
    text += fmt::format("{} is being read, and stays\n", escaped(path.string()));
  }
  return text;
}

std::string as_json(Removed const& removed) {
  Json json{{"dry_run", removed.dry_run}, {"removed", Json::array()}, {"in_use", Json::array()}};
  for (auto const& [path, bytes] : removed.removed) {
    json["removed"].push_back({{"path", path.string()}, {"bytes", bytes}});
  }
  for (auto const& path : removed.in_use) {
    json["in_use"].push_back(path.string());
  }
  return safe_text(json);
}

}  // namespace zeroth::tools
