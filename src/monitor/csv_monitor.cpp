// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "monitor/appending_file.hpp"
#include "zeroth/monitor/monitor.hpp"

namespace zeroth {
namespace {

/// Turns "Train/Samples/lr" into a file name that cannot leave the folder.
std::string file_name(std::string name) {
  std::ranges::replace_if(
      name, [](char letter) { return letter == '/' || letter == ' ' || letter == '\0'; }, '_');
  return name + ".csv";
}

/// A CSV field, in quotes if needed.
std::string field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string{text};
  }
  std::string quoted{'"'};
  for (char const letter : text) {
    quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  }
  return quoted + '"';
}

class CsvMonitor final : public Monitor {
 public:
  explicit CsvMonitor(MonitorSettings const& settings)
      : folder_{monitor::made_folder(std::filesystem::path{settings.output_path} / settings.job_name)} {}

  void write(std::span<MonitorEvent const> events) override {
    for (auto const& event : events) {
      auto const [file, is_new] = files_.try_emplace(event.name, folder_ / file_name(event.name));
      if (is_new && file->second.was_empty()) {
        file->second.write(fmt::format("step,{}\n", field(event.name.substr(event.name.rfind('/') + 1))));
      }
      file->second.write(fmt::format("{},{}\n", event.samples, event.value));
    }
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, monitor::AppendingFile> files_;
};

}  // namespace

std::unique_ptr<Monitor> csv_monitor(MonitorSettings const& settings) { return std::make_unique<CsvMonitor>(settings); }

}  // namespace zeroth
