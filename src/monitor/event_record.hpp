// SPDX-License-Identifier: Apache-2.0
/// TensorFlow's event files, limited to scalars. A file is a sequence of records (tensorflow/core/lib/io: length, its
/// checksum, bytes, their checksum); each holds one Event message (tensorflow/core/util/event.proto) in protobuf's wire
/// format.
#pragma once
#include <span>
#include <string>

#include "zeroth/monitor/monitor.hpp"

namespace zeroth::monitor {

/// The first record of every file.
[[nodiscard]] std::string version_record(double wall_seconds);
/// One record with all `events`, which belong to the same number of samples.
[[nodiscard]] std::string scalars_record(double wall_seconds, std::span<MonitorEvent const> events);

}  // namespace zeroth::monitor
