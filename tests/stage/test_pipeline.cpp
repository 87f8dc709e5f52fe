// SPDX-License-Identifier: Apache-2.0
/// Tests schedules of pipelines exhaustively, and the errors of their check.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "stage/pipeline_check.hpp"
#include "stage/pipeline_slots.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using stage::Action;
using stage::Actions;
using stage::PipelineSize;

constexpr auto forward = Phase::forward;
constexpr auto backward = Phase::backward;
constexpr auto inputs = Phase::backward_inputs;
constexpr auto weights = Phase::backward_weights;
constexpr PipelineSchedule with_one_chunk[] = {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                                               PipelineSchedule::zero_bubble};

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

/// The error of check() for 1F1B with 2 stages and 3 micro-steps after `change`.
std::string told(std::function<void(std::vector<Actions>&)> const& change) {
  PipelineSize const size{2, 1, 3};
  auto lists = stage::schedule_of(PipelineSchedule::one_forward_one_backward, size);
  change(lists);
  return thrown<ContractError>([&] { stage::check(lists, size); });
}

/// The time at which all lists are done, given the time of each phase: an action begins when the previous one on its
/// stage is done and its input is available.
double time_of(std::vector<Actions> const& lists, PipelineSize const& size, std::array<double, 4> const& times) {
  std::map<std::tuple<bool, int, int>, double> made;  // key: whether forward, chunk, micro-step
  std::vector<std::size_t> at(lists.size(), 0);
  std::vector<double> now(lists.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < lists.size(); ++stage) {
      for (; at[stage] < lists[stage].size(); ++at[stage], moved = true) {
        auto const& [phase, chunk, micro_step] = lists[stage][at[stage]];
        bool const goes_down = phase == forward;
        bool const reads = phase == weights ? false : goes_down ? chunk > 0 : chunk + 1 < size.all_chunks();
        auto const needed = std::tuple{goes_down, chunk + (goes_down ? -1 : 1), micro_step};
        if (reads && !made.contains(needed)) {
          break;
        }
        now[stage] = std::max(now[stage], reads ? made[needed] : 0) + times[static_cast<std::size_t>(phase)];
        if (phase != weights) {
          made[{goes_down, chunk, micro_step}] = now[stage];
        }
      }
    }
  }
  return *std::ranges::max_element(now);
}

}  // namespace

TEST_CASE("every schedule of up to 8 stages and 32 micro-steps passes the check, and holds the stated activations") {
  for (int stages = 2; stages <= 8; ++stages) {
    for (int micro_steps = 1; micro_steps <= 32; ++micro_steps) {
      INFO(stages << " stages, " << micro_steps << " micro-steps");
      PipelineSize const size{stages, 1, micro_steps};
      for (auto const schedule : with_one_chunk) {
        auto const lists = stage::schedule_of(schedule, size);
        CHECK_NOTHROW(stage::check(lists, size));
        bool const all_first = schedule == PipelineSchedule::gpipe;
        for (int s = 0; s < stages; ++s) {
          auto const& actions = lists[static_cast<std::size_t>(s)];
          auto const slots = stage::slots_of(actions, stages);
          // Deferred weight gradients also hold activations, at most as many as there are stages.
          auto const most = all_first                                   ? micro_steps
                            : schedule == PipelineSchedule::zero_bubble ? std::min(micro_steps, stages)
                                                                        : std::min(micro_steps, stages - s);
          CHECK(slots.most_activations <= most);
          CHECK((schedule == PipelineSchedule::zero_bubble || slots.most_activations == most));
          CHECK(std::ssize(actions) == micro_steps * stage::actions_per_micro_step(schedule));
        }
      }
      PipelineSize const two{stages, 2, micro_steps};
      CHECK_NOTHROW(stage::check(looped(stages, micro_steps), two));
      for (int chunks = 2; chunks <= 4 && micro_steps % stages == 0; ++chunks) {
        PipelineSize const several{stages, chunks, micro_steps};
        CHECK_NOTHROW(stage::check(stage::schedule_of(PipelineSchedule::interleaved, several), several));
      }
    }
  }
}

TEST_CASE("one stage runs micro-steps one after another, without a list") {
  for (auto const schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                              PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
    PipelineSize const size{1, 1, 2};
    auto const actions = stage::actions_of(schedule, size, 0);
    CHECK(actions == (schedule == PipelineSchedule::zero_bubble
                          ? Actions{{forward, 0, 0},
                                    {inputs, 0, 0},
                                    {weights, 0, 0},
                                    {forward, 0, 1},
                                    {inputs, 0, 1},
                                    {weights, 0, 1}}
                          : Actions{{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}}));
    for (std::size_t i = 0; i < actions.size(); ++i) {
      CHECK(stage::action_of_only_stage(schedule, static_cast<std::int64_t>(i)) == actions[i]);
    }
    CHECK(stage::slots_of(actions, 1).most_activations == 1);
    CHECK_NOTHROW(stage::check({actions}, size));
  }
}

TEST_CASE("schedules have the bubbles of their papers") {
  constexpr std::array unit_times{1.0, 2.0, 1.0, 1.0};
  for (int const stages : {2, 4, 8}) {
    for (int const rounds : {1, 2, 4}) {
      auto const micro_steps = stages * rounds;
      INFO(stages << " stages, " << micro_steps << " micro-steps");
      auto const time = [&](PipelineSchedule schedule, int chunks, std::array<double, 4> times) {
        PipelineSize const size{stages, chunks, micro_steps};
        for (auto& each : times) {
          each /= chunks;
        }
        return time_of(stage::schedule_of(schedule, size), size, times);
      };
      auto const work = 3.0 * micro_steps;
      CHECK(time(PipelineSchedule::gpipe, 1, unit_times) == work + 3 * (stages - 1));
      CHECK(time(PipelineSchedule::one_forward_one_backward, 1, unit_times) == work + 3 * (stages - 1));
      for (int const chunks : {2, 4}) {  // chunks divide the bubble
        CHECK(time(PipelineSchedule::interleaved, chunks, unit_times) == work + 3.0 * (stages - 1) / chunks);
      }
      CHECK(time(PipelineSchedule::zero_bubble, 1, unit_times) == work + (stages - 1));
      // k stages and k micro-steps, with equal times for forward and backward: 2 (2k - 1).
      constexpr std::array alike{1.0, 1.0, 1.0, 1.0};
      CHECK((rounds > 1 || time(PipelineSchedule::gpipe, 1, alike) == 2 * (2 * stages - 1)));
    }
  }
}

TEST_CASE("slots are free when they are assigned, and there are no more than needed") {
  for (auto const& [schedule, chunks] :
       {std::pair{PipelineSchedule::gpipe, 1}, std::pair{PipelineSchedule::one_forward_one_backward, 1},
        std::pair{PipelineSchedule::zero_bubble, 1}, std::pair{PipelineSchedule::interleaved, 3}}) {
    PipelineSize const size{4, chunks, 8};
    for (int s = 0; s < 4; ++s) {
      auto const actions = stage::actions_of(schedule, size, s);
      auto const slots = stage::slots_of(actions, size.all_chunks());
      std::map<std::pair<int, int>, std::size_t> last;  // last action of a chunk and micro-step
      for (std::size_t i = 0; i < actions.size(); ++i) {
        last[{actions[i].chunk, actions[i].micro_step}] = i;
      }
      std::map<int, std::pair<int, int>> activations;  // owner by slot
      std::map<int, int> chunk_of;                     // by slot
      std::size_t most = 0;
      for (std::size_t i = 0; i < actions.size(); ++i) {
        std::pair const key{actions[i].chunk, actions[i].micro_step};
        auto const slot = slots.activations[i];
        REQUIRE((slot >= 0 && slot < slots.most_activations));
        auto const [held, taken] = activations.emplace(slot, key);
        REQUIRE(held->second == key);
        REQUIRE(chunk_of.emplace(slot, key.first).first->second == key.first);
        REQUIRE(taken == (actions[i].phase == forward));
        most = std::max(most, activations.size());
        REQUIRE((actions[i].chunk == 0) == (slots.input[i] == stage::PipelineSlots::none));
        if (last.at(key) == i) {
          activations.erase(slot);
        }
      }
      CHECK((chunks > 1 || most == static_cast<std::size_t>(slots.most_activations)));
      CHECK(chunk_of.size() == static_cast<std::size_t>(slots.most_activations));
      CHECK(slots.most_inputs <= slots.most_activations + 1);
    }
  }
}

TEST_CASE("a large schedule is created and checked quickly") {
  auto const start = std::chrono::steady_clock::now();
  PipelineSize const size{64, 1, 1024};
  for (auto const schedule : with_one_chunk) {
    stage::check(stage::schedule_of(schedule, size), size);
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{5});  // 0.1 s each; the limit allows for a busy
                                                                              // machine
}

TEST_CASE("mistakes in a schedule are reported with stage, action and what it waits for") {
  CHECK(told([](auto&) {}).empty());
  CHECK_THAT(told([](auto& lists) { lists[1].pop_back(); }),
             Contains("stage 1 lacks backward of micro-step 2 in chunk 1"));
  CHECK_THAT(told([](auto& lists) { lists[0].insert(lists[0].begin(), lists[0].front()); }),
             Contains("stage 0 has forward of micro-step 0 in chunk 0 twice"));
  CHECK_THAT(told([](auto& lists) { lists[0].push_back(lists[0].back()); }),
             Contains("stage 0 has backward of micro-step 2 in chunk 0 twice"));
  CHECK_THAT(told([](auto& lists) { lists[1].back().phase = weights; }),
             Contains("stage 1 has backward_weights of micro-step 2 in chunk 1 without backward_inputs before it"));
  CHECK_THAT(told([](auto& lists) { lists[1].back().phase = inputs; }),
             Contains("stage 1 lacks backward_weights of micro-step 2 in chunk 1"));
  CHECK_THAT(told([](auto& lists) { std::swap(lists[1][0], lists[1][1]); }),
             Contains("stage 1 has backward of micro-step 0 in chunk 1 without forward before it"));
  CHECK_THAT(told([](auto& lists) { lists[0][0].chunk = 1; }),
             Contains("stage 0 has forward of micro-step 0 in chunk 1, which does not belong to it"));
  CHECK_THAT(told([](auto& lists) { lists[0][0].micro_step = 3; }), Contains("which does not belong to it"));
  CHECK_THAT(told([](auto& lists) {
               lists[1] = {{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 1}, {backward, 1, 0}};
             }),
             Contains("stage 1 has backward of micro-step 1 in chunk 1 before that of micro-step 0"));
  CHECK_THAT(told([](auto& lists) { std::swap(lists[0][0], lists[0][1]); }),
             Contains("stage 0 has forward of micro-step 1 in chunk 0 before that of micro-step 0"));
  CHECK_THAT(thrown<ContractError>([] {
               stage::check({}, {0, 1, 1});
             }),
             Contains("a schedule of 0 stages, 1 chunks each and 1 micro-steps"));
  CHECK_THAT(thrown<ContractError>([] { stage::check({{}}, {2, 1, 1}); }), Contains("has lists for 1 stages"));
}

TEST_CASE("messages that cross are reported") {
  // Stage 0 sends its two chunks' messages in another order than stage 1 reads them.
  PipelineSize const size{2, 2, 1};
  std::vector<Actions> const lists{{{forward, 0, 0}, {forward, 2, 0}, {backward, 2, 0}, {backward, 0, 0}},
                                   {{forward, 3, 0}, {forward, 1, 0}, {backward, 3, 0}, {backward, 1, 0}}};
  CHECK_THAT(
      thrown<ContractError>([&] { stage::check(lists, size); }),
      Contains("messages cross: stage 1 needs for forward of micro-step 0 in chunk 3 the result of forward of "
               "micro-step 0 in chunk 2, but stage 0 first sends the result of forward of micro-step 0 in chunk 0"));
}

TEST_CASE("a schedule that deadlocks is reported with what each stage waits for") {
  // Stage 0 needs the gradient of micro-step 0 before it sends micro-step 1, which stage 1 needs first.
  std::vector<Actions> const lists{{{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}},
                                   {{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 0}, {backward, 1, 1}}};
  CHECK_THAT(thrown<ContractError>([&] {
               stage::check(lists, {2, 1, 2});
             }),
             Contains("the schedule deadlocks: stage 0 waits in backward of micro-step 0 in chunk 0 for backward of "
                      "micro-step 0 in chunk 1 at stage 1"));
  // Stage 0 sends three messages down, but one send slot and one message received ahead hold only two.
  std::vector<Actions> const full{
      {{forward, 0, 0}, {forward, 0, 1}, {forward, 0, 2}, {backward, 0, 0}, {backward, 0, 1}, {backward, 0, 2}},
      {{forward, 1, 0}, {backward, 1, 0}, {forward, 1, 1}, {backward, 1, 1}, {forward, 1, 2}, {backward, 1, 2}}};
  CHECK(thrown<ContractError>([&] { stage::check(full, {2, 1, 3}); }).empty());
}

}  // namespace zeroth::testing
