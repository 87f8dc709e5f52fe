// SPDX-License-Identifier: Apache-2.0
/// Writes the flight records of a job to files.
#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::comm {

/// For the ranks of this process, numbered from `first_rank`. Any thread may call any function.
class FlightFiles {
 public:
  FlightFiles(int first_rank, std::vector<std::shared_ptr<FlightRecorder>> recorders);
  FlightFiles(FlightFiles const&) = delete;
  FlightFiles& operator=(FlightFiles const&) = delete;
  /// Removes files that only write_in_case() has written.
  ~FlightFiles();
  void set_folder(std::filesystem::path const& folder);
  /// Writes zeroth_flight_rank<R>.json for every rank, and reports on stderr where, or why not. Only the first call has
  /// an effect.
  void write(std::string_view reason) noexcept;
  /// Writes them without a message, for an end that may leave no time to do so. write() replaces them.
  void write_in_case(std::string_view reason) noexcept;

 private:
  void write_files(std::string_view reason) const;
  [[nodiscard]] std::filesystem::path path_of(int rank) const;

  int first_rank_;
  std::vector<std::shared_ptr<FlightRecorder>> recorders_;
  std::mutex mutex_;
  std::filesystem::path folder_ = ".";
  bool written_ = false, in_case_ = false;
};

}  // namespace zeroth::comm
