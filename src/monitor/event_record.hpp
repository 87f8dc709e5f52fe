// SPDX-License-Identifier: Apache-2.0
/// TensorFlow's event files, as far as scalars need them. A file is a sequence of records (tensorflow/core/lib/io:
/// length, its checksum, bytes, their checksum); each holds one message Event (tensorflow/core/util/event.proto) in
/// protobuf's wire format.
#pragma once
#include <span>
#include <string>

#include "zeroth/monitor/monitor.hpp"

namespace zeroth::monitor {

/// The first record of every file.
[[nodiscard]] std::string version_record(double wall_seconds);
/// One record for all `events`, which have one number of samples.
[[nodiscard]] std::string scalars_record(double wall_seconds, std::span<MonitorEvent const> events);

}  // namespace zeroth::monitor
