// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>

#include "core/host_name.hpp"
#include "monitor/appending_file.hpp"
#include "monitor/wandb_record.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/monitor/monitor.hpp"

namespace zeroth {
namespace {

/// Eight letters and digits, as wandb names runs.
std::string new_id() {
  constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> which{0, letters.size() - 1};
  std::string id;
  while (id.size() < 8) {
    id += letters[which(random)];
  }
  return id;
}

std::filesystem::path folder_of(std::string const& id, std::time_t start) {
  auto const* const folder = std::getenv("WANDB_DIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  std::tm local{};
  ::localtime_r(&start, &local);
  return std::filesystem::path{folder == nullptr ? "" : folder} / "wandb" /
         fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}", local, id);
}

class WandbMonitor final : public Monitor {
 public:
  explicit WandbMonitor(WandbSettings const& settings) : WandbMonitor{settings, new_id(), monitor::wall_seconds()} {}
  ~WandbMonitor() override {
    try {
      file_.write(log_.record(monitor::wandb_exit(static_cast<std::int64_t>(monitor::wall_seconds() - start_))));
    } catch (SystemError const&) {  // was told where it first failed, or is lost with the machine
    }
  }

  void write(std::span<MonitorEvent const> events) override {
    if (!events.empty()) {
      auto const now = monitor::wall_seconds();
      file_.write(log_.record(monitor::wandb_history(events, now, now - start_)));
    }
  }

  [[nodiscard]] std::string told() const override {
    return fmt::format("wandb: an offline run, which \"wandb sync {}\" uploads", folder_.string());
  }

 private:
  WandbMonitor(WandbSettings const& settings, std::string const& id, double start)
      : start_{start},
        folder_{monitor::made_folder(folder_of(id, static_cast<std::time_t>(start)))},
        file_{folder_ / fmt::format("run-{}.wandb", id)} {
    file_.write(log_.begin());
    file_.write(log_.record(monitor::wandb_run(settings, id, host_name(), static_cast<std::int64_t>(start))));
  }

  double start_;
  std::filesystem::path folder_;
  monitor::WandbLog log_;
  monitor::AppendingFile file_;
};

}  // namespace

std::unique_ptr<Monitor> wandb_monitor(WandbSettings const& settings) {
  return std::make_unique<WandbMonitor>(settings);
}

}  // namespace zeroth
