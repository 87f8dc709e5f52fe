// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/flight_files.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "zeroth/core/error.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {

FlightFiles::FlightFiles(int first_rank, std::vector<std::shared_ptr<FlightRecorder>> recorders)
    : first_rank_{first_rank}, recorders_{std::move(recorders)} {}

FlightFiles::~FlightFiles() {
  if (!in_case_ || written_) {
    return;
  }
  for (std::size_t i = 0; i < recorders_.size(); ++i) {
    std::error_code ignored;
    std::filesystem::remove(path_of(first_rank_ + static_cast<int>(i)), ignored);
  }
}

void FlightFiles::set_folder(std::filesystem::path const& folder) {
  std::lock_guard const lock{mutex_};
  folder_ = folder.empty() ? std::filesystem::path{"."} : folder;
}

void FlightFiles::write(std::string_view reason) noexcept {
  std::lock_guard const lock{mutex_};
  if (std::exchange(written_, true)) {
    return;
  }
  try {
    write_files(reason);
    auto const last = first_rank_ + static_cast<int>(recorders_.size()) - 1;
    std::string const names = last == first_rank_
                                  ? fmt::format("zeroth_flight_rank{}.json", first_rank_)
                                  : fmt::format("zeroth_flight_rank{}.json to ..rank{}.json", first_rank_, last);
    print_error(fmt::format("flight record written: {}", (folder_ / names).string()));
  } catch (std::exception const& error) {
    print_error(std::string{"flight record not written: "} + error.what());
  }
}

void FlightFiles::write_in_case(std::string_view reason) noexcept {
  std::lock_guard const lock{mutex_};
  if (written_) {
    return;
  }
  in_case_ = true;
  try {
    write_files(reason);
  } catch (std::exception const&) {  // write() reports it, if it is called
  }
}

void FlightFiles::write_files(std::string_view reason) const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw SystemError{
        fmt::format("the folder of flight records, {}, cannot be created: {}", folder_.string(), error.message())};
  }
  int rank = first_rank_;
  for (auto const& recorder : recorders_) {
    recorder->write(path_of(rank++), reason);
  }
}

std::filesystem::path FlightFiles::path_of(int rank) const {
  return folder_ / fmt::format("zeroth_flight_rank{}.json", rank);
}

}  // namespace zeroth::comm
