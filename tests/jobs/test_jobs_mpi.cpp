// SPDX-License-Identifier: Apache-2.0
/// Random jobs of processes, over mpi and tcp. Each rank compares itself with stage 0 in memory, which it runs on its
/// own threads.
#include <fmt/format.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "jobs/arguments.hpp"
#include "jobs/rank_run.hpp"
#include "jobs/trial.hpp"
#include "jobs/watchdog.hpp"
#include "support/folder.hpp"
#include "support/process_transport.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::testing::jobs {
namespace {

/// Values that rank 0 chooses and tells all ranks.
struct Common {
  int rank = 0, ranks = 0;
  std::uint64_t seed = 0;
  std::filesystem::path folder;  ///< A folder that all ranks see.
};

/// Sums each number over ranks; also serves as a barrier.
std::vector<double> summed(std::vector<double> numbers, Common* common = nullptr) {
  int const status = launch({.transport = process_transport()}, [&](Job& job) {
    if (common != nullptr) {
      common->rank = job.rank();
      common->ranks = job.world();
      numbers = job.rank() == 0 ? numbers : std::vector<double>(numbers.size());
    }
    job.sum(numbers);
  });
  if (status != 0) {
    std::exit(status);
  }
  return numbers;
}

Common agree(Arguments const& arguments) {
  Common common;
  auto const of_first =
      summed({static_cast<double>(arguments.seed.value_or(seed_of_now())), static_cast<double>(::getpid())}, &common);
  common.seed = static_cast<std::uint64_t>(of_first[0]);
  common.folder = std::filesystem::temp_directory_path() / fmt::format("zeroth-jobs-{:.0f}", of_first[1]);
  return common;
}

/// launch() ends the processes of a failed job, so this prints its description before that.
void train(Drawn const& drawn, Place const& place, Record& record) {
  static_cast<void>(launch({.transport = process_transport()}, [&](Job& job) {
    try {
      run_rank(job, drawn, place, record);
    } catch (std::exception const& error) {
      fmt::print("{}", page_of(drawn, error.what()));
      std::fflush(stdout);
      throw;
    }
  }));
}

std::string difference_of(Drawn const& drawn, Common const& common) {
  Folder const mine{files_in_memory()};
  auto const reference = drawn.is_random() ? Record{} : reference_of(drawn, mine.path());
  Place const place{common.folder / std::to_string(drawn.seed), false, process_transport()};
  std::filesystem::create_directories(place.folder);
  Record record;
  train(drawn, place, record);
  add_states(drawn, place, record);
  return drawn.is_random() ? record.first_problem() : record.first_difference(reference);
}

/// A rejected job ends its processes, so jobs that may be rejected run only on threads.
bool may_be_refused(Drawn const& drawn) {
  auto const needs_slots = [](Choice const& choice) {
    return choice.is("nested guards", "neighbours") && choice.is("zero_optimization.stage", "3");
  };
  return needs_slots(drawn.choice) || needs_slots(drawn.resumed);
}

bool passes(Drawn const& drawn, Common const& common) {
  Watchdog const watchdog{page_of(drawn, "it does not end")};
  auto const difference = difference_of(drawn, common);
  if (!difference.empty()) {
    fmt::print("rank {}: {}", common.rank, page_of(drawn, difference));
    std::fflush(stdout);
  }
  double const failed = summed({difference.empty() ? 0.0 : 1.0})[0];
  if (common.rank == 0) {
    std::filesystem::remove_all(common.folder / std::to_string(drawn.seed));
  }
  return failed == 0;
}

int run(Arguments arguments) {
  spdlog::set_default_logger(spdlog::null_logger_mt("jobs"));
  Folder const folder;  // some write into the working folder
  std::filesystem::current_path(folder.path());
  arguments.seed = arguments.only ? arguments.only : arguments.seed;
  auto const common = agree(arguments);
  arguments.given.ranks = common.ranks;
  if (common.rank == 0) {
    fmt::print("jobs of {} processes from seed {} on\n", common.ranks, common.seed);
    std::fflush(stdout);
  }
  bool good = true;
  std::int64_t tried = 0;
  for (auto seed = common.seed; good && tried < arguments.jobs; ++seed) {
    if (auto const drawn = draw(seed, arguments.given); !may_be_refused(drawn)) {
      good = passes(drawn, common);
      ++tried;
    }
  }
  if (common.rank == 0) {
    std::filesystem::remove_all(common.folder);
    fmt::print("{} jobs, {}\n", tried, good ? "none failed" : "the last one failed");
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace zeroth::testing::jobs

int main(int argument_count, char** arguments) {
  using namespace zeroth::testing::jobs;
  return run(read_arguments(argument_count, arguments));
}
