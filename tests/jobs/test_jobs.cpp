// SPDX-License-Identifier: Apache-2.0
/// Random jobs of threads, each compared with stage 0 in memory.
#include <fmt/format.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "jobs/arguments.hpp"
#include "jobs/pairs.hpp"
#include "jobs/trial.hpp"
#include "jobs/watchdog.hpp"
#include "support/folder.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::testing::jobs {
namespace {

struct Count {
  int tried = 0, refused = 0, failed = 0;
};

std::string difference_of(Drawn const& drawn) {
  Folder const folder{files_of(drawn)};
  Watchdog const watchdog{page_of(drawn, "it does not end")};
  return try_on_threads(drawn, folder).difference;
}

/// Takes one option after the other back to its plain value, as long as the job fails.
void shrink(std::uint64_t seed, Given given) {
  auto const wanted = draw_choice(seed, given);
  for (std::size_t option = 0; option < options().size(); ++option) {
    if (wanted.values()[option] != 0) {
      given.options.emplace_back(options()[option].name, options()[option].values.front().name);
      if (difference_of(draw(seed, given)).empty()) {
        given.options.pop_back();
      }
    }
  }
  auto const drawn = draw(seed, given);
  fmt::print("with less:\n{}", page_of(drawn, difference_of(drawn)));
  for (auto const& [option, value] : given.options) {
    fmt::print("  --set '{}={}'\n", option, value);
  }
}

void try_one(std::uint64_t seed, Arguments const& arguments, Count& count) {
  auto const drawn = draw(seed, arguments.given);
  Folder const folder{files_of(drawn)};
  Watchdog const watchdog{page_of(drawn, "it does not end")};
  auto const outcome = try_on_threads(drawn, folder);
  ++count.tried;
  count.refused += outcome.refused ? 1 : 0;
  if (!outcome.difference.empty()) {
    ++count.failed;
    fmt::print("{}", page_of(drawn, outcome.difference));
    if (arguments.shrink) {
      shrink(seed, arguments.given);
    }
    std::fflush(stdout);
  }
}

/// The seed, among the next ones, whose job has the most unseen pairs. A job depends only on its seed.
std::uint64_t seed_for(Pairs const& pairs, std::uint64_t next, Given const& given) {
  constexpr std::uint64_t looked_at = 16;
  std::uint64_t best = next;
  std::size_t most = 0;
  for (auto seed = next; seed < next + looked_at; ++seed) {
    if (auto const found = pairs.new_in(draw_choice(seed, given)); found > most) {
      most = found;
      best = seed;
    }
  }
  return best;
}

/// With `pairs`, prefers jobs with unseen pairs.
Count try_many(std::uint64_t first, Arguments const& arguments, Pairs* pairs) {
  auto const end = Clock::now() + std::chrono::duration<double>(std::min(arguments.minutes, 1e6) * 60);
  Count count;
  for (auto seed = first; count.tried < arguments.jobs && Clock::now() < end;) {
    auto const chosen = pairs != nullptr ? seed_for(*pairs, seed, arguments.given) : seed;
    try_one(chosen, arguments, count);
    if (pairs != nullptr) {
      pairs->add(draw_choice(chosen, arguments.given));
    }
    seed += pairs != nullptr ? 16 : 1;
  }
  return count;
}

int run(Arguments const& arguments) {
  spdlog::set_default_logger(spdlog::null_logger_mt("jobs"));
  Folder const folder;  // some write into the working folder
  std::filesystem::current_path(folder.path());
  if (arguments.only) {
    Count count;
    try_one(*arguments.only, arguments, count);
    fmt::print("job {}: {}\n", *arguments.only, count.failed > 0 ? "failed" : count.refused > 0 ? "refused" : "passed");
    return count.failed > 0 ? 1 : 0;
  }
  auto const first = arguments.seed.value_or(seed_of_now());
  fmt::print("jobs from seed {} on\n", first);
  std::fflush(stdout);
  std::optional<Pairs> pairs;
  if (arguments.pairs) {
    pairs.emplace();  // asks the rules about each pair, which takes a while
  }
  auto const count = try_many(first, arguments, pairs ? &*pairs : nullptr);
  fmt::print("{} jobs, {} refused as documented, {} failed\n", count.tried, count.refused, count.failed);
  if (pairs) {
    fmt::print("{} of {} pairs of values have met; missing:\n{}", pairs->seen(), pairs->possible(), pairs->missing());
  }
  return count.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace zeroth::testing::jobs

int main(int argument_count, char** arguments) {
  using namespace zeroth::testing::jobs;
  return run(read_arguments(argument_count, arguments));
}
