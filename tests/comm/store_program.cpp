// SPDX-License-Identifier: Apache-2.0
// One rank of a job that meets in a store: store_program RANK WORLD PORT HEARTBEAT_MS WHAT. Prints the errors that it
// gets.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "comm/store_ranks.hpp"

namespace {

using zeroth::comm::Store;
constexpr std::chrono::minutes patience{3};

void say(std::string const& words) {
  fmt::print("{}\n", words);
  std::fflush(stdout);
}

/// Calls until one fails. SIGPIPE has its default action, and a store that is gone must not end this process.
std::string keep_calling(Store& store) {
  for (int i = 0;; ++i) {
    auto const key = fmt::format("rank {} call {}", store.rank(), i);
    store.set(key, key);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

std::string act(Store& store, std::string_view what) {
  if (what == "rest") {
    std::this_thread::sleep_for(std::chrono::seconds{1});
  }
  if (what == "meet" || what == "rest") {
    return fmt::format("met {}", fmt::join(store.gather("again", std::to_string(store.rank()), patience), " "));
  }
  if (what == "call") {
    return keep_calling(store);
  }
  if (what == "throw") {
    throw std::runtime_error{"out of luck"};
  }
  if (what == "abort") {
    store.abort(fmt::format("rank {} failed: no disk", store.rank()));
    std::_Exit(4);  // at once: the others must know already
  }
  if (what == "leave") {
    return "left";
  }
  return store.get("never", patience);
}

int run(char const* const* arguments) {
  auto options = zeroth::comm::rank_options(std::atoi(arguments[1]), std::atoi(arguments[2]), std::atoi(arguments[3]));
  options.heartbeat_timeout = std::chrono::milliseconds{std::atoi(arguments[4])};
  Store store{options};
  if (store.rank() == 0) {
    say(fmt::format("port {}.", store.port()));
  }
  auto const all = store.gather("all", std::to_string(store.rank()), patience);
  say(fmt::format("joined {} of {}", store.rank(), all.size()));
  say(act(store, arguments[5]));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    say("usage: store_program RANK WORLD PORT HEARTBEAT_MS WHAT");
    return 2;
  }
  try {
    return run(argv);
  } catch (std::exception const& error) {
    say(fmt::format("told: {}", error.what()));
    return 3;
  }
}
