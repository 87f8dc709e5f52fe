// SPDX-License-Identifier: Apache-2.0
#include "jobs/arguments.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

namespace zeroth::testing::jobs {
namespace {

constexpr char const* usage =
    "usage: test_jobs [--seed S] [--jobs N] [--minutes M] [--pairs] [--only SEED] [--set OPTION=VALUE]... [--shrink]\n"
    "Draws jobs and holds each against stage 0 in memory, until N or M are reached; by default one job.\n"
    "--only runs the job of a seed again, --set gives an option another value, --pairs prefers and counts pairs of\n"
    "values that have not met yet, --shrink takes from a job that fails what it fails without.\n";

Arguments parsed(int count, char** texts) {
  Arguments arguments;
  bool limited = false;
  for (int i = 1; i < count; ++i) {
    std::string const name = texts[i];
    auto const value = [&]() -> std::string {
      if (i + 1 == count) {
        throw std::invalid_argument{name + " needs a value"};
      }
      return texts[++i];
    };
    if (name == "--seed") {
      arguments.seed = std::stoull(value());
    } else if (name == "--only") {
      arguments.only = std::stoull(value());
    } else if (name == "--jobs") {
      arguments.jobs = std::stoll(value());
      limited = true;
    } else if (name == "--minutes") {
      arguments.minutes = std::stod(value());
      limited = true;
    } else if (name == "--pairs") {
      arguments.pairs = true;
    } else if (name == "--shrink") {
      arguments.shrink = true;
    } else if (name == "--set") {
      auto const text = value();
      auto const at = text.find('=');
      if (at == std::string::npos) {
        throw std::invalid_argument{"--set needs OPTION=VALUE, not " + text};
      }
      Choice{}.set(text.substr(0, at), text.substr(at + 1));  // throws if there is no such option or value
      arguments.given.options.emplace_back(text.substr(0, at), text.substr(at + 1));
    } else {
      throw std::invalid_argument{"unknown: " + name};
    }
  }
  if (!limited) {
    arguments.jobs = 1;
  }
  return arguments;
}

}  // namespace

Arguments read_arguments(int count, char** texts) {
  try {
    return parsed(count, texts);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), usage);
    std::exit(2);
  }
}

std::uint64_t seed_of_now() {
  auto const now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) % 100'000'000U *
         10'000U;
}

}  // namespace zeroth::testing::jobs
