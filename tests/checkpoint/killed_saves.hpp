// SPDX-License-Identifier: Apache-2.0
/// Runs four processes over tcp, and kills one of them during a save.
#pragma once
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/fail_points.hpp"
#include "support/folder.hpp"
#include "support/reserved_port.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::testing {

/// Makes an engine with `config`, and calls the argument with the engine and a function that trains so many steps.
using Training = std::function<void(Job&, Config const& config,
                                    std::function<void(AnyEngine&, std::function<void(int steps)> const&)> const&)>;

/// Runs rank `rank`: saves after step 1 and again after step 2, in which rank `victim` is killed at its call `number`.
/// Then trains on.
inline int die_in_save(std::filesystem::path const& folder, Config const& config, Training const& training, int rank,
                       std::pair<int, int> victim_and_number, int port) {
  for (auto const& [name, value] : {std::pair{"RANK", rank}, std::pair{"WORLD_SIZE", 4}, std::pair{"LOCAL_RANK", rank},
                                    std::pair{"LOCAL_WORLD_SIZE", 4}, std::pair{"MASTER_PORT", port}}) {
    ::setenv(name, std::to_string(value).c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  }
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);  // NOLINT(concurrency-mt-unsafe)
  auto const recorded =
      config.with(fmt::format(R"({{"zeroth": {{"flight_recorder": "{}"}}}})", folder.parent_path().string()));
  return launch({.transport = comm::Transport::tcp}, [&](Job& job) {
    training(job, recorded, [&](AnyEngine& engine, std::function<void(int)> const& train) {
      train(1);
      engine.save(folder).wait();
      train(1);
      if (rank == victim_and_number.first) {
        FailPoints::arm(folder, victim_and_number.second, FailPoints::kill);
      }
      static_cast<void>(engine.save(folder));
      train(4);
      engine.finish();
    });
  });
}

/// Whether the victim was killed in its call; the others end with it then.
inline bool dies_in_save(std::filesystem::path const& folder, Config const& config, Training const& training,
                         int victim, int number) {
  ReservedPort const port;
  std::vector<::pid_t> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(::fork());
    REQUIRE(ranks.back() >= 0);
    if (ranks.back() == 0) {  // the child has one thread, and starts its own
      ::_exit(die_in_save(folder, config, training, rank, {victim, number}, port.number()));
    }
  }
  bool killed = false;
  std::vector<int> statuses(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    REQUIRE(::waitpid(ranks[rank], &statuses[rank], 0) == ranks[rank]);
    killed = killed ||
             (static_cast<int>(rank) == victim && WIFSIGNALED(statuses[rank]) && WTERMSIG(statuses[rank]) == SIGKILL);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    INFO("rank " << rank);
    if (static_cast<int>(rank) != victim) {
      CHECK(WIFEXITED(statuses[rank]));
      CHECK((WEXITSTATUS(statuses[rank]) == 0) == !killed);
    }
  }
  return killed;
}

/// Kills ranks at these calls, and returns how many were killed. Each time the previous checkpoint must be whole, and
/// `resume`, which trains from it and saves, must end at step 2.
inline int kill_in_saves(std::vector<std::pair<int, int>> const& victims_and_numbers, Config const& config,
                         Training const& training,
                         std::function<void(std::filesystem::path const& checkpoint)> const& check_whole,
                         std::function<std::int64_t(std::filesystem::path const& saved)> const& resume) {
  int killed = 0;
  for (auto const& [victim, number] : victims_and_numbers) {
    INFO(fmt::format("rank {} killed at call {}", victim, number));
    Folder const folder;
    auto const saved = folder / "saved";
    if (!dies_in_save(saved, config, training, victim, number)) {
      continue;
    }
    ++killed;
    CHECK(checkpoint::newest_first(saved).size() == 1);
    check_whole(saved / "step_00000001");
    CHECK(resume(saved) == 2);
    CHECK(checkpoint::newest_first(saved).size() == 2);
    for (auto const& entry : std::filesystem::directory_iterator{saved}) {
      CHECK_THAT(entry.path().filename().string(), !Catch::EndsWith(".partial"));
    }
  }
  return killed;
}

}  // namespace zeroth::testing
