// SPDX-License-Identifier: Apache-2.0
#include "rank_logs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

#include <zeroth/core/clock.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/standard_streams.hpp>

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_at_once = 4096;  // PIPE_BUF: a pipe that is ready takes this much without blocking
constexpr std::size_t longest_line = most_at_once - 64;
constexpr std::chrono::seconds patience{2};

/// Reads up to `most` bytes from `begin` on; empty if there is no file.
std::string read_piece(fs::path const& path, std::int64_t begin, std::size_t most) {
  std::ifstream file{path, std::ios::binary};
  std::string piece(most, '\0');
  file.seekg(begin);
  file.read(piece.data(), static_cast<std::streamsize>(most));
  piece.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return piece;
}

}  // namespace

fs::path make_run_folder(fs::path const& log_dir) {
  std::error_code error;
  fs::create_directories(log_dir, error);
  for (int number = 1; !error; ++number) {
    auto folder = log_dir / fmt::format("run_{}", number);
    if (fs::create_directory(folder, error)) {
      return folder;
    }
  }
  throw ConfigError{fmt::format("--log-dir {}: cannot create a folder there: {}", log_dir.string(), error.message())};
}

RankLogs::RankLogs(fs::path const& run_folder, int attempt, std::size_t processes, bool tee) : tee_{tee} {
  auto const folder = run_folder / fmt::format("attempt_{}", attempt);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw SystemError{fmt::format("--log-dir: {} cannot be created: {}", folder.string(), error.message())};
  }
  for (std::size_t place = 0; place < processes; ++place) {
    processes == 1 ? files_.push_back({folder / "ranks.log", {}})
                   : files_.push_back({folder / fmt::format("rank_{}.log", place), fmt::format("[rank {}] ", place)});
  }
}

fs::path RankLogs::file(std::size_t place) const { return files_.empty() ? fs::path{} : files_[place].path; }

bool RankLogs::show_some(File& file, bool ends) {
  auto const piece = read_piece(file.path, file.shown, longest_line);
  auto const last = piece.rfind('\n');
  bool const is_long = piece.size() == longest_line;  // a line that is longer is shown in parts
  if (piece.empty() || (last == std::string::npos && !is_long && !ends)) {
    return false;
  }
  auto rest = std::string_view{piece}.substr(0, last == std::string::npos ? piece.size() : last + 1);
  std::string lines;
  while (!rest.empty()) {
    auto const line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    auto const shown = fmt::format("{}{}{}", file.label, line, line.ends_with('\n') ? "" : "\n");
    if (!lines.empty() && lines.size() + shown.size() > most_at_once) {
      break;
    }
    lines += shown;
    file.shown += static_cast<std::int64_t>(line.size());
    rest.remove_prefix(line.size());
  }
  write_output(lines);
  return true;
}

void RankLogs::show() {
  for (auto& file : files_) {
    if (tee_ && takes_more(STDOUT_FILENO, Clock::now())) {
      show_some(file, false);
    }
  }
}

void RankLogs::show_all() {
  bool is_read = tee_;
  for (auto& file : files_) {
    do {
      is_read = is_read && takes_more(STDOUT_FILENO, Clock::now() + patience);
    } while (is_read && show_some(file, true));
  }
}

std::string RankLogs::end_of(std::size_t place, int lines) const {
  std::error_code error;
  auto const size = static_cast<std::int64_t>(fs::file_size(files_[place].path, error));
  auto const begin = error ? 0 : std::max<std::int64_t>(0, size - static_cast<std::int64_t>(most_at_once));
  auto text = read_piece(files_[place].path, begin, most_at_once);
  if (!text.empty() && text.back() != '\n') {
    text += '\n';
  }
  auto at = text.size();
  for (int i = 0; i < lines && at > 0; ++i) {
    auto const before = at > 1 ? text.rfind('\n', at - 2) : std::string::npos;
    at = before == std::string::npos ? 0 : before + 1;
  }
  return text.substr(at);
}

}  // namespace zeroth::tools
