// SPDX-License-Identifier: Apache-2.0
/// Schedules of pipelines, exhaustively, and what their check finds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "stage/pipeline.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using stage::Action;
using stage::Actions;

constexpr auto forward = Phase::forward;
constexpr auto backward = Phase::backward;

/// Two chunks a stage, one micro-step at a time: forward through all chunks, then back.
std::vector<Actions> looped(int stages, int micro_steps) {
  std::vector<Actions> all(static_cast<std::size_t>(stages));
  for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
    for (int chunk = 0; chunk < 2 * stages; ++chunk) {
      all[static_cast<std::size_t>(chunk % stages)].push_back({forward, chunk, micro_step});
    }
    for (int chunk = 2 * stages; chunk-- > 0;) {
      all[static_cast<std::size_t>(chunk % stages)].push_back({backward, chunk, micro_step});
    }
  }
  return all;
}

/// What check() says of 1F1B for 2 stages and 3 micro-steps after `change`.
std::string told(std::function<void(std::vector<Actions>&)> const& change) {
  auto lists = stage::one_forward_one_backward(2, 3);
  change(lists);
  return thrown<ContractError>([&] { stage::check(lists, 3); });
}

}  // namespace

TEST_CASE("every schedule of up to 8 stages and 32 micro-steps passes the check") {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int micro_steps = 1; micro_steps <= 32; ++micro_steps) {
      INFO(stages << " stages, " << micro_steps << " micro-steps");
      auto const all_first = stage::gpipe(stages, micro_steps);
      auto const in_turn = stage::one_forward_one_backward(stages, micro_steps);
      CHECK_NOTHROW(stage::check(all_first, micro_steps));
      CHECK_NOTHROW(stage::check(in_turn, micro_steps));
      CHECK_NOTHROW(stage::check(looped(stages, micro_steps), micro_steps));
      for (int s = 0; s < stages; ++s) {
        auto const place = static_cast<std::size_t>(s);
        CHECK(stage::in_flight(all_first[place]) == micro_steps);
        CHECK(stage::in_flight(in_turn[place]) == std::min(micro_steps, stages - s));
        CHECK(all_first[place].size() == static_cast<std::size_t>(2 * micro_steps));
        CHECK(in_turn[place].size() == static_cast<std::size_t>(2 * micro_steps));
      }
    }
  }
}

TEST_CASE("one stage runs micro-steps one after another") {
  auto const actions = stage::actions_of(PipelineSchedule::one_forward_one_backward, 1, 2).front();
  CHECK(actions == Actions{{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}});
  CHECK(stage::actions_of(PipelineSchedule::gpipe, 1, 2).front() ==
        Actions{{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}});
}

TEST_CASE("a large schedule is made and checked in little time") {
  auto const start = std::chrono::steady_clock::now();
  stage::check(stage::one_forward_one_backward(64, 1024), 1024);
  stage::check(stage::gpipe(64, 1024), 1024);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{5});  // 0.1 s and less, but for a busy machine
}

TEST_CASE("what is wrong in a schedule is told with stage, action and what it waits for") {
  CHECK(told([](auto&) {}).empty());
  CHECK_THAT(told([](auto& lists) { lists[1].pop_back(); }),
             Contains("stage 1 lacks backward of micro-step 2 in chunk 1"));
  CHECK_THAT(told([](auto& lists) { lists[0].insert(lists[0].begin(), lists[0].front()); }),
             Contains("stage 0 has forward of micro-step 0 in chunk 0 twice"));
  CHECK_THAT(told([](auto& lists) { lists[0].push_back(lists[0].back()); }),
             Contains("stage 0 has backward of micro-step 2 in chunk 0 where that of micro-step 3 comes"));
  CHECK_THAT(told([](auto& lists) { std::swap(lists[1][0], lists[1][1]); }),
             Contains("stage 1 has backward of micro-step 0 in chunk 1 without forward before it"));
  CHECK_THAT(told([](auto& lists) { lists[0][0].chunk = 1; }),
             Contains("stage 0 has forward of micro-step 0 in chunk 1, which is none of its own"));
  CHECK_THAT(told([](auto& lists) { lists[0][0].micro_step = 3; }), Contains("which is none of its own"));
  CHECK_THAT(told([](auto& lists) {
               lists[1] = {{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 1}, {backward, 1, 0}};
             }),
             Contains("stage 1 has backward of micro-step 1 in chunk 1 where that of micro-step 0 comes"));
  CHECK_THAT(
      told([](auto& lists) { std::swap(lists[0][0], lists[0][1]); }),
      Contains("messages cross: stage 1 needs for forward of micro-step 0 in chunk 1 what forward of micro-step 0 "
               "in chunk 0 made, and stage 0 sends first what forward of micro-step 1 in chunk 0 made"));
  CHECK_THAT(thrown<ContractError>([] { stage::check({}, 1); }), Contains("a schedule of 0 stages and 1 micro-steps"));
}

TEST_CASE("the schedule of an only stage needs no list") {
  for (auto const schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward}) {
    for (int const micro_steps : {1, 2, 5}) {
      auto const actions = stage::actions_of(schedule, 1, micro_steps).front();
      for (std::size_t i = 0; i < actions.size(); ++i) {
        CHECK(stage::action_of_only_stage(schedule, micro_steps, static_cast<std::int64_t>(i)) == actions[i]);
      }
      CHECK(stage::in_flight_of_only_stage(schedule, micro_steps) == stage::in_flight(actions));
    }
  }
}

TEST_CASE("a schedule that does not end is told with what each waits for") {
  // Stage 0 wants the gradient of micro-step 0 before it sends micro-step 1, which stage 1 wants first.
  std::vector<Actions> const lists{{{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}},
                                   {{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 0}, {backward, 1, 1}}};
  CHECK_THAT(thrown<ContractError>([&] { stage::check(lists, 2); }),
             Contains("the schedule does not end: stage 0 waits in backward of micro-step 0 in chunk 0 for backward of "
                      "micro-step 0 in chunk 1 at stage 1"));
  // Stage 0 sends three messages down, and one slot and one that is received ahead hold two.
  std::vector<Actions> const full{
      {{forward, 0, 0}, {forward, 0, 1}, {forward, 0, 2}, {backward, 0, 0}, {backward, 0, 1}, {backward, 0, 2}},
      {{forward, 1, 0}, {backward, 1, 0}, {forward, 1, 1}, {backward, 1, 1}, {forward, 1, 2}, {backward, 1, 2}}};
  CHECK(thrown<ContractError>([&] { stage::check(full, 3); }).empty());
}

}  // namespace zeroth::testing
