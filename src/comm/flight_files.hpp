/// The flight records of a job as files.
#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// Of the ranks of this process, numbered from `first_rank`. Any thread may call anything.
class FlightFiles {
 public:
  FlightFiles(int first_rank, std::vector<std::shared_ptr<FlightRecorder>> recorders);
  void set_folder(std::filesystem::path const& folder);
  /// Writes zeroth_flight_rank<R>.json for every rank, and says on stderr where, or why not. Once: what comes first
  /// counts.
  void write(std::string_view reason) noexcept;
  /// Writes them again, for a reason that is nearer to the cause than the one that came first.
  void correct(std::string_view reason) noexcept;

 private:
  void write_files(std::string_view reason) const;

  int first_rank_;
  std::vector<std::shared_ptr<FlightRecorder>> recorders_;
  std::mutex mutex_;
  std::filesystem::path folder_ = ".";
  bool written_ = false;
};

}  // namespace zeroth::comm
