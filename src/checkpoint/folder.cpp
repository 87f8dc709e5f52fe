// SPDX-License-Identifier: Apache-2.0
#include "zeroth/checkpoint/folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include "zeroth/checkpoint/record.hpp"
#include "zeroth/config/document.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/core/input_file.hpp"

namespace zeroth::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step_";

bool is_checkpoint(fs::path const& path) {
  std::error_code error;
  return fs::is_regular_file(path / record_name, error);
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", prefix, step); }

std::optional<std::int64_t> step_of(std::string const& name) {
  std::int64_t step = -1;
  if (name.starts_with(prefix)) {
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  }
  return step >= 0 && checkpoint_name(step) == name ? std::optional{step} : std::nullopt;
}

std::string latest_in(fs::path const& folder) {
  try {
    InputFile const file{folder / latest_name};
    std::array<char, 64> text{};  // names are shorter
    auto const bytes = file.read_some(0, std::as_writable_bytes(std::span{text}));
    std::string_view name{text.data(), bytes};
    return std::string{name.substr(0, name.find('\n'))};
  } catch (Unreadable const&) {
    return {};
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
    if (auto const step = step_of(each->path().filename().string()); step && is_checkpoint(each->path())) {
      entries.push_back({*step, each->path()});
    }
  }
  if (error) {
    throw SystemError{fmt::format("checkpoints in {}: cannot be listed: {}", folder.string(), error.message())};
  }
  auto const latest = step_of(latest_in(folder));
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
  auto const name = latest_in(path);
  if (name.empty()) {
    std::error_code error;
    throw SystemError{
        fs::exists(path, error)
            ? fmt::format("checkpoint {}: has neither {} nor {}", path.string(), record_name, latest_name)
            : fmt::format("checkpoint {}: {}", path.string(), error ? error.message() : "there is no such folder")};
  }
  if (!step_of(name) || !is_checkpoint(path / name)) {
    throw SystemError{fmt::format("checkpoint {}: {} names {}, which is no checkpoint in it", path.string(),
                                  latest_name, config::in_quotes(name))};
  }
  return path / name;
}

}  // namespace zeroth::checkpoint
