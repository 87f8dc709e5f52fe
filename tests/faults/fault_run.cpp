// SPDX-License-Identifier: Apache-2.0
#include "faults/fault_run.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace zeroth::testing {

Child::Options fault_program(std::vector<std::string> const& arguments, Folder const& folder) {
  Child::Options options{.command = {ZEROTH_FAULT_PROGRAM}, .folder = folder.path(), .environment = {}};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  return options;
}

Child::Options fault_program_under_mpi(int ranks, std::vector<std::string> const& arguments, Folder const& folder) {
  auto options = fault_program(arguments, folder);
  auto launcher = words_of(ZEROTH_MPIRUN);
  launcher.insert(launcher.end(), {"-n", std::to_string(ranks)});
  options.command.insert(options.command.begin(), launcher.begin(), launcher.end());
  return options;
}

std::string problem_of_flight(std::filesystem::path const& folder, int rank, int world, std::string const& reason) {
  auto const path = folder / fmt::format("zeroth_flight_rank{}.json", rank);
  std::ifstream file{path};
  if (!file) {
    return fmt::format("there is no {}", path.filename().string());
  }
  auto const record = nlohmann::json::parse(file, nullptr, false);
  if (record.is_discarded()) {
    return fmt::format("{} is no JSON", path.filename().string());
  }
  auto const& records = record.at("records");
  if (record.at("rank") != rank || record.at("world") != world || !records.is_array()) {
    return fmt::format("{} speaks of somebody else: rank {} of {}", path.filename().string(), record.at("rank").dump(),
                       record.at("world").dump());
  }
  if (record.at("reason").get<std::string>().find(reason) == std::string::npos) {
    return fmt::format("{}: '{}' is not in its reason, {}", path.filename().string(), reason,
                       record.at("reason").dump());
  }
  bool const has_steps = !records.empty() && records.back().at("what").is_string();
  return has_steps ? "" : fmt::format("{} has no records", path.filename().string());
}

std::string problem_of_flights(std::filesystem::path const& folder, std::vector<int> const& ranks, int world,
                               std::string const& reason) {
  std::string problem;
  for (int const rank : ranks) {
    problem = problem.empty() ? problem_of_flight(folder, rank, world, reason) : problem;
  }
  return problem;
}

int process_of(std::string const& output, int rank) {
  std::string const words = fmt::format("rank {} is process ", rank);
  auto const at = output.find(words);
  if (at == std::string::npos) {
    throw std::runtime_error{"no process of rank " + std::to_string(rank) + " in: " + output};
  }
  return std::stoi(output.substr(at + words.size()));
}

}  // namespace zeroth::testing
