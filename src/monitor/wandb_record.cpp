// SPDX-License-Identifier: Apache-2.0
#include "monitor/wandb_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "monitor/wire.hpp"

namespace zeroth::monitor {
namespace {

constexpr std::size_t block_bytes = 32'768;
constexpr std::size_t head_bytes = 7;  // of a piece of a record: checksum 4, length 2, type 1

/// Of a piece of a record in a block.
enum class Piece : std::uint8_t { whole = 1, first = 2, middle = 3, last = 4 };

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value)
         : std::isnan(value)  ? R"("NaN")"
         : value > 0          ? R"("Infinity")"
                              : R"("-Infinity")";
}

std::string item(std::string_view key, std::string const& json) {
  return field::text(1, field::text(1, key) + field::text(16, json));
}

}  // namespace

std::string WandbLog::begin() {
  in_block_ = head_bytes;
  return std::string{":W&B"} + bytes_of(std::uint16_t{0xbee1}) + '\0';  // and the version, 0
}

std::string WandbLog::record(std::string_view message) {
  auto const numbered = field::integer(1, ++number_) + std::string{message};
  std::string bytes;
  std::string_view left = numbered;
  for (bool begins = true;; begins = false) {
    auto room = block_bytes - in_block_;
    if (room < head_bytes) {
      bytes.append(room, '\0');
      in_block_ = 0;
      room = block_bytes;
    }
    auto const count = std::min(left.size(), room - head_bytes);
    bool const ends = count == left.size();
    auto const piece = begins && ends ? Piece::whole : begins ? Piece::first : ends ? Piece::last : Piece::middle;
    auto const data = static_cast<char>(piece) + std::string{left.substr(0, count)};
    bytes += bytes_of(crc32(data)) + bytes_of(static_cast<std::uint16_t>(count)) + data;
    in_block_ += head_bytes + count;
    left.remove_prefix(count);
    if (ends) {
      return bytes;
    }
  }
}

// Record: history 2, run 17, exit 18. RunRecord: run_id 1, entity 2, project 3, run_group 6, host 13, start_time 17
// with seconds 1. HistoryRecord: item 1 with key 1 and value_json 16, step 2 with num 1. RunExitRecord: exit_code 1,
// runtime 2.

std::string wandb_run(WandbSettings const& settings, std::string_view id, std::string_view host,
                      std::int64_t start_seconds) {
  auto run = field::text(1, id);
  run += settings.team.empty() ? "" : field::text(2, settings.team);
  run += field::text(3, settings.project);
  run += settings.group.empty() ? "" : field::text(6, settings.group);
  run += field::text(13, host) + field::text(17, field::integer(1, start_seconds));
  return field::text(17, run);
}

std::string wandb_history(std::span<MonitorEvent const> events, double wall_seconds, double run_seconds) {
  std::string history;
  std::int64_t samples = 0;
  for (auto const& [name, value, at] : events) {
    history += item(name, number(value));
    samples = at;
  }
  history += item("_step", fmt::format("{}", samples)) + item("_timestamp", number(wall_seconds)) +
             item("_runtime", number(run_seconds));
  return field::text(2, history + field::text(2, field::integer(1, samples)));
}

std::string wandb_exit(std::int64_t run_seconds) {
  return field::text(18, field::integer(1, 0) + field::integer(2, run_seconds));
}

}  // namespace zeroth::monitor
