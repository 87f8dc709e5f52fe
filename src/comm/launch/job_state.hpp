// SPDX-License-Identifier: Apache-2.0
/// The state behind a Job.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "zeroth/comm/job.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::detail {

/// Made by launch() and by Job::split(), and by tests around their own communicators.
struct JobState {
  std::unique_ptr<comm::Communicator> communicator;  ///< All ranks; engines split theirs from it.
  int local_rank = 0;
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void()> request_stop = [] {};
  std::function<void(std::int64_t)> note_progress = [](std::int64_t) {};  ///< Any thread.
  std::function<std::unique_ptr<device::Device>()> make_device = [] { return device::make_cpu_device(); };
  std::optional<device::StreamRef> compute_stream;  ///< Empty: the device's own stream.
  /// Sets where this job's flight records are written if it fails; the default is the working folder. Any thread; the
  /// last call wins.
  std::function<void(std::filesystem::path const&)> set_flight_folder = [](std::filesystem::path const&) {};
  [[nodiscard]] static JobState& of(Job& job) noexcept { return *job.state_; }
  [[nodiscard]] Job job() noexcept { return Job{*this}; }
  /// A job of this rank only, which communicates with no other rank. Destroy it before this one.
  [[nodiscard]] Job alone() const;
  /// The state of a part of this job, whose ranks are those of `of_part`.
  [[nodiscard]] std::unique_ptr<JobState> part(std::unique_ptr<comm::Communicator> of_part) const;
};

}  // namespace zeroth::detail
