// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "monitor/appending_file.hpp"
#include "monitor/event_record.hpp"
#include "zeroth/monitor/monitor.hpp"

namespace zeroth {

Monitor::~Monitor() = default;

namespace {

/// TensorBoard reads files with "tfevents" in their names, in the order of names: seconds come first. Two runs in the
/// same second differ by process, two engines of a process by nanoseconds.
std::string new_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') {
    host = {'h', 'o', 's', 't'};
  }
  auto const now = std::chrono::system_clock::now().time_since_epoch();
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  auto const rest = std::chrono::duration_cast<std::chrono::nanoseconds>(now - seconds);
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", seconds.count(), host.data(), ::getpid(), rest.count());
}

class TensorboardMonitor final : public Monitor {
 public:
  explicit TensorboardMonitor(MonitorSettings const& settings)
      : file_{monitor::made_folder(std::filesystem::path{settings.output_path} / settings.job_name) / new_name()} {
    file_.write(monitor::version_record(monitor::wall_seconds()));
  }

  void write(std::span<MonitorEvent const> events) override {
    if (!events.empty()) {
      file_.write(monitor::scalars_record(monitor::wall_seconds(), events));
    }
  }

 private:
  monitor::AppendingFile file_;
};

}  // namespace

std::unique_ptr<Monitor> tensorboard_monitor(MonitorSettings const& settings) {
  return std::make_unique<TensorboardMonitor>(settings);
}

}  // namespace zeroth
