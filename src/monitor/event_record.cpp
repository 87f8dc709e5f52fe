// SPDX-License-Identifier: Apache-2.0
#include "monitor/event_record.hpp"

#include <bit>

#include "monitor/wire.hpp"

namespace zeroth::monitor {
namespace {

/// The mask that records apply: a checksum over bytes that contain checksums would otherwise be weak.
std::uint32_t masked(std::uint32_t crc) noexcept { return std::rotr(crc, 15) + 0xa282ead8U; }

std::string record(std::string_view message) {
  auto const length = bytes_of(std::uint64_t{message.size()});
  return length + bytes_of(masked(crc32c(length))) + std::string{message} + bytes_of(masked(crc32c(message)));
}

}  // namespace

// Event: wall_time 1, step 2, file_version 3, summary 5. Summary: value 1. Value: tag 1, simple_value 2.

std::string version_record(double wall_seconds) {
  return record(field::real(1, wall_seconds) + field::text(3, "brain.Event:2"));
}

std::string scalars_record(double wall_seconds, std::span<MonitorEvent const> events) {
  std::string summary;
  std::int64_t samples = 0;
  for (auto const& [name, value, at] : events) {
    summary += field::text(1, field::text(1, name) + field::real(2, static_cast<float>(value)));
    samples = at;
  }
  return record(field::real(1, wall_seconds) + field::integer(2, samples) + field::text(5, summary));
}

}  // namespace zeroth::monitor
