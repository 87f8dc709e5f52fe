// SPDX-License-Identifier: Apache-2.0
#include "zeroth/checkpoint/folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step_";

/// Throws SystemError if the type is unknown.
fs::file_type type_of(fs::path const& path) {
  std::error_code error;
  auto const type = fs::status(path, error).type();
  if (type == fs::file_type::none) {
    throw SystemError{fmt::format("checkpoint {}: cannot be examined: {}", path.string(), error.message())};
  }
  return type;
}

/// Also true if the type is unknown: reading it will give the error.
bool may_be_folder(fs::directory_entry const& entry) {
  std::error_code error;
  auto const type = entry.status(error).type();
  return type == fs::file_type::directory || type == fs::file_type::none || type == fs::file_type::not_found;
}

bool is_checkpoint(fs::path const& path) { return type_of(path / record_name) == fs::file_type::regular; }

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", prefix, step); }

std::optional<std::int64_t> step_of(std::string const& name) {
  std::int64_t step = -1;
  if (name.starts_with(prefix)) {
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  }
  return step >= 0 && checkpoint_name(step) == name ? std::optional{step} : std::nullopt;
}

std::optional<std::string> latest_in(fs::path const& folder) {
  auto const file_name = folder / latest_name;
  if (type_of(file_name) == fs::file_type::not_found) {
    return std::nullopt;
  }
  try {
    InputFile const file{file_name};
    std::array<char, 64> text{};  // longer than any name
    auto const bytes = file.read_some(0, std::as_writable_bytes(std::span{text}));
    std::string_view name{text.data(), bytes};
    return std::string{name.substr(0, name.find('\n'))};
  } catch (Unreadable const& error) {
    if (error.error == 0) {
      return "";
    }
    throw SystemError{fmt::format("checkpoint {}: {}", file_name.string(), error.what())};
  }
}

std::vector<fs::path> newest_first(fs::path const& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) && !error) {
    return {};
  }
  struct Entry {
    std::int64_t step;
    fs::path path;
  };
  std::vector<Entry> entries;
  auto each = fs::directory_iterator{folder, error};
  for (; !error && each != fs::directory_iterator{}; each.increment(error)) {
    if (auto const step = step_of(each->path().filename().string()); step && may_be_folder(*each)) {
      entries.push_back({*step, each->path()});
    }
  }
  if (error) {
    throw SystemError{fmt::format("checkpoints in {}: cannot be listed: {}", folder.string(), error.message())};
  }
  auto const latest = step_of(latest_in(folder).value_or(""));
  std::ranges::sort(entries, [&](Entry const& a, Entry const& b) {
    bool const a_behind = latest && a.step > *latest;
    bool const b_behind = latest && b.step > *latest;
    return a_behind != b_behind ? b_behind : a.step > b.step;
  });
  std::vector<fs::path> paths;
  for (auto& entry : entries) {
    paths.push_back(std::move(entry.path));
  }
  return paths;
}

fs::path find_checkpoint(fs::path const& path) {
  if (is_checkpoint(path)) {
    return path;
  }
  for (auto name = latest_in(path);;) {
    if (!name) {
      throw DamagedError{
          type_of(path) == fs::file_type::not_found
              ? fmt::format("checkpoint {}: there is no such folder", path.string())
              : fmt::format("checkpoint {}: has neither {} nor {}", path.string(), record_name, latest_name)};
    }
    if (step_of(*name) && is_checkpoint(path / *name)) {
      return path / *name;
    }
    auto const before = std::exchange(name, latest_in(path));
    if (name == before) {  // otherwise another job that saves here has removed it, and a newer one exists
      throw DamagedError{fmt::format("checkpoint {}: {} names {}, which is not a checkpoint in this folder",
                                     path.string(), latest_name, config::in_quotes(*name))};
    }
  }
}

}  // namespace zeroth::checkpoint
