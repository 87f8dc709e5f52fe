// SPDX-License-Identifier: Apache-2.0
#include "jobs/trial.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "jobs/rank_run.hpp"
#include "jobs/refusals.hpp"
#include "jobs/stage_file.hpp"
#include "parity/sleepy_disk.hpp"
#include "support/delayed.hpp"
#include "support/job.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing::jobs {
namespace {

/// AnyPass::forward() needs a slot for each unit that is open, and only units that stay open have one reserved.
bool is_documented_refusal(Drawn const& drawn, testing::Outcome const& outcome) {
  if (!drawn.choice.is("nested guards", "neighbours")) {
    return false;
  }
  return std::ranges::any_of(outcome, [](std::exception_ptr const& error) {
    try {
      if (error) {
        std::rethrow_exception(error);
      }
    } catch (ContractError const& refused) {
      return std::string_view{refused.what()}.find("no parameter slot for unit") != std::string_view::npos;
    } catch (...) {
      return false;
    }
    return false;
  });
}

/// Makes ranks behave like processes: each knows only its own stop requests.
void let_stop(Job& job) {
  auto& state = zeroth::detail::JobState::of(job);
  auto const asked = std::make_shared<std::atomic<bool>>(false);
  state.stop_requested = [asked] { return asked->load(); };
  state.request_stop = [asked] { asked->store(true); };
}

}  // namespace

std::filesystem::path files_in_memory() {
  std::filesystem::path const memory{"/dev/shm"};
  return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

std::filesystem::path files_of(Drawn const& drawn) {
  return drawn.choice.is("disk", "in memory") ? files_in_memory() : std::filesystem::temp_directory_path();
}

Record reference_of(Drawn const& drawn, std::filesystem::path const& folder) {
  Place const place{folder, true};
  std::vector<Record> records(static_cast<std::size_t>(drawn.most_of_reference()));
  auto const outcome = run_job(drawn.most_of_reference(), [&](Job& job) {
    run_rank(job, drawn, place, records[static_cast<std::size_t>(job.rank())]);
  });
  if (auto const messages = messages_of(outcome); !messages.empty()) {
    throw std::runtime_error{"the reference failed: " + messages};
  }
  for (auto const& record : records) {
    if (auto const difference = record.first_difference(records.front()); !difference.empty()) {
      throw std::runtime_error{"a rank of the reference is not as rank 0: " + difference};
    }
  }
  add_states(drawn, place, records.front());
  return std::move(records.front());
}

Outcome try_on_threads(Drawn const& drawn, Folder const& folder) {
  try {
    if (auto const problem = refusal_problem(drawn, folder.path()); !problem.empty()) {
      return {problem};
    }
    Folder const of_reference{files_in_memory()};
    auto const reference = drawn.is_random() ? Record{} : reference_of(drawn, of_reference.path());
    Place const place{folder.path()};
    std::vector<Record> records(static_cast<std::size_t>(drawn.most_of_world()));
    SleepyDisk const disk{folder, drawn.choice.is("disk", "slow") ? 1 + static_cast<unsigned>(drawn.seed % 1000) : 0};
    auto const outcome = run_job(
        drawn.most_of_world(),
        [&](Job& job) {
          let_stop(job);
          run_rank(job, drawn, place, records[static_cast<std::size_t>(job.rank())]);
        },
        drawn.choice.is("communicator", "late") ? Wrap{delayed} : Wrap{});
    if (is_documented_refusal(drawn, outcome)) {
      return {{}, true};
    }
    if (auto const messages = messages_of(outcome); !messages.empty()) {
      return {messages};
    }
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      add_states(drawn, place, records[rank]);
      auto const difference =
          drawn.is_random() ? records[rank].first_problem() : records[rank].first_difference(reference);
      if (!difference.empty()) {
        return {fmt::format("rank {}: {}", rank, difference)};
      }
      for (std::size_t other = 0; other < rank; ++other) {
        if (auto const difference = records[rank].first_other_count(records[other]); !difference.empty()) {
          return {fmt::format("rank {}: {}", rank, difference)};
        }
      }
    }
    return {};
  } catch (std::exception const& error) {
    return {error.what()};
  }
}

std::string page_of(Drawn const& drawn, std::string const& difference) {
  auto page = described(drawn);
  page["stage file"] = stage_file(drawn.choice, drawn.units, "/tmp");
  page["reference"] = reference_file(drawn.choice, "/tmp");
  if (drawn.saved_at > 0) {
    page["stage file that goes on"] = stage_file(drawn.resumed, drawn.units, "/tmp");
  }
  return fmt::format("FAILED: job {}\n{}\nfirst difference: {}\nagain: test_jobs --only {}\n", drawn.seed, page.dump(1),
                     difference, drawn.seed);
}

}  // namespace zeroth::testing::jobs
