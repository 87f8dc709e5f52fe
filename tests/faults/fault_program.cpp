// SPDX-License-Identifier: Apache-2.0
// A job with a fault, for the tests in this folder: fault_program SCENARIO [--ranks N] [--comm local|mpi|tcp]
// [--timeout MS] [--grace MS] [--stop-grace MS] [--join-timeout MS] [--threads N] [--stopped RANK]. Ranks are threads
// or, under mpirun, processes. "Odd" is rank 1. The timeout applies to steps after the third, since ranks may start at
// different times. --threads limits the threads that can be made. The process that would become rank RANK stops first.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "comm/launch/job_state.hpp"
#include "engine_scenarios.hpp"
#include "few_threads.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/comm/transport.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace {

using namespace std::chrono_literals;
using zeroth::Dtype;

struct Arguments {
  std::string scenario;
  int ranks = 4;
  std::optional<zeroth::comm::Transport> transport = std::nullopt;
  std::chrono::milliseconds timeout{120'000};
  std::chrono::milliseconds grace{20'000};
  std::optional<int> stopped = std::nullopt;
  std::chrono::milliseconds join_timeout{zeroth::LaunchOptions{}.join_timeout};
  std::chrono::milliseconds stop_grace{zeroth::LaunchOptions{}.stop_grace};
  std::optional<int> threads = std::nullopt;
};

void say(std::string const& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

/// One rank with a stream, and steps to do on it.
class Rank {
 public:
  Rank(zeroth::Job& job, Arguments const& arguments)
      : job_{job},
        timeout_{arguments.timeout},
        state_{zeroth::detail::JobState::of(job)},
        device_{zeroth::device::make_cpu_device()},
        stream_{device_->make_stream("gather", zeroth::device::Overlap::on)} {
    state_.communicator->set_options({.check = true});
    say(fmt::format("rank {} is process {}.", job.rank(), ::getpid()));
  }

  [[nodiscard]] bool odd() const { return job_.rank() == 1; }

  /// A step of all ranks. Returns true if one of them was asked to stop.
  bool step() {
    std::array<float, 2> sums{1, state_.stop_requested() ? 1.0F : 0.0F};
    state_.communicator->all_reduce(*stream_, {"step", "h.3"}, sums.data(), sums.data(), 2, Dtype::fp32);
    stream_->synchronize();
    if (++steps_ == 3) {
      state_.communicator->set_options({timeout_, true});
    }
    return sums[1] > 0;
  }
  void step_until(int count) {
    while (steps_ < count) {
      step();
    }
  }
  void step_for_ever() {
    while (true) {
      step();
      if (steps_ == 3) {
        say(fmt::format("rank {} is under way.", job_.rank()));
      }
      std::this_thread::sleep_for(1ms);
    }
  }
  void step_until_stopped() {
    while (!step()) {
      if (steps_ == 3) {
        say(fmt::format("rank {} is under way.", job_.rank()));
      }
      std::this_thread::sleep_for(1ms);
    }
    say(fmt::format("rank {} stops at step {}.", job_.rank(), steps_));
  }
  void do_something_else() {
    float data = 0;
    state_.communicator->broadcast(*stream_, {"forward", "h.4"}, &data, &data, 1, Dtype::fp32, 0);
    stream_->synchronize();
  }

 private:
  zeroth::Job& job_;
  std::chrono::milliseconds timeout_;
  zeroth::detail::JobState& state_;
  std::unique_ptr<zeroth::device::Device> device_;
  std::unique_ptr<zeroth::device::Stream> stream_;
  int steps_ = 0;
};

using Scenario = std::function<void(Rank&)>;

std::map<std::string, Scenario> const scenarios{
    {"fine", [](Rank& rank) { rank.step_until(5); }},
    {"throw",
     [](Rank& rank) {
       rank.step_until(3);
       if (rank.odd()) {
         throw std::runtime_error{"the data are gone"};
       }
       rank.step_for_ever();
     }},
    {"wrong",
     [](Rank& rank) {
       rank.step_until(3);
       if (rank.odd()) {
         throw zeroth::ConfigError{"the stage file has changed"};
       }
       rank.step_for_ever();
     }},
    {"throw_a_number",
     [](Rank& rank) {
       if (rank.odd()) {
         throw 5;
       }
       rank.step_for_ever();
     }},
    {"exit",
     [](Rank& rank) {
       rank.step_until(3);
       if (rank.odd()) {
         std::exit(7);
       }
       rank.step_for_ever();
     }},
    {"freeze",
     [](Rank& rank) {
       rank.step_until(3);
       while (rank.odd()) {
         std::this_thread::sleep_for(1h);
       }
       rank.step_for_ever();
     }},
    {"out_of_order",
     [](Rank& rank) {
       rank.step_until(3);
       if (rank.odd()) {
         rank.do_something_else();
       }
       rank.step_for_ever();
     }},
    {"leave",
     [](Rank& rank) {
       rank.step_until(3);
       if (!rank.odd()) {
         rank.step_for_ever();
       }
     }},
    {"steps", [](Rank& rank) { rank.step_for_ever(); }},
    {"until_stopped", [](Rank& rank) { rank.step_until_stopped(); }},
    {"save_when_stopped", [](Rank& rank) { rank.step_until_stopped(); }},
    {"freeze_when_stopped",
     [](Rank& rank) {
       rank.step_until_stopped();
       while (rank.odd()) {
         std::this_thread::sleep_for(1h);
       }
     }},
};

std::map<std::string, std::function<void(zeroth::Job&)>> const engine_scenarios{
    {"order_0", [](zeroth::Job& job) { zeroth::testing::take_units_in_another_order(job, 0); }},
    {"order_3", [](zeroth::Job& job) { zeroth::testing::take_units_in_another_order(job, 3); }},
    {"swallow", zeroth::testing::keep_errors},
    {"lost", zeroth::testing::leave_a_micro_step},
    {"files", zeroth::testing::save_and_load_in_vain},
    {"meet", zeroth::testing::meet},
    {"threads", zeroth::testing::run_out_of_threads},
    {"memory",
     [](zeroth::Job& job) {
       if (job.rank() == 1) {
         throw std::bad_alloc{};
       }
       zeroth::testing::meet(job);
     }},
    {"flights", [](zeroth::Job& job) { zeroth::testing::throw_in_training(job, "flights/of this job"); }},
    {"groups", [](zeroth::Job& job) { zeroth::testing::train_in_groups(job, zeroth::testing::Fault::none); }},
    {"throw_in_a_group",
     [](zeroth::Job& job) { zeroth::testing::train_in_groups(job, zeroth::testing::Fault::throws); }},
    {"freeze_in_a_group",
     [](zeroth::Job& job) { zeroth::testing::train_in_groups(job, zeroth::testing::Fault::freezes); }},
    {"diverge_in_a_group",
     [](zeroth::Job& job) { zeroth::testing::train_in_groups(job, zeroth::testing::Fault::diverges); }},
    {"die_in_a_group", [](zeroth::Job& job) { zeroth::testing::train_in_groups(job, zeroth::testing::Fault::dies); }},
    {"end_in_a_pass", zeroth::testing::end_the_engine_in_its_pass},
    {"evaluation_0", [](zeroth::Job& job) { zeroth::testing::evaluate_alone(job, 0); }},
    {"evaluation_3", [](zeroth::Job& job) { zeroth::testing::evaluate_alone(job, 3); }},
};

/// The scenario of "stages", or of "throw", "freeze" or "die" and the rest of the name; null for any other name.
std::function<void(zeroth::Job&)> stage_scenario(std::string const& name) {
  using zeroth::Job;
  using zeroth::testing::Fault;
  using zeroth::testing::TensorPlace;
  static std::map<std::string, Fault> const faults{
      {"throw", Fault::throws}, {"freeze", Fault::freezes}, {"die", Fault::dies}};
  static std::map<std::string, TensorPlace> const places{{"_before_enter", TensorPlace::enter},
                                                         {"_before_leave", TensorPlace::leave},
                                                         {"_before_leave_backward", TensorPlace::leave_backward},
                                                         {"_before_enter_backward", TensorPlace::enter_backward},
                                                         {"_before_parts", TensorPlace::parts}};
  if (name == "stages") {
    return [](Job& job) { zeroth::testing::train_in_stages(job, Fault::none, 0); };
  }
  if (name == "served") {
    return [](Job& job) { zeroth::testing::train_with_a_server(job, Fault::none, 0); };
  }
  auto const fault = faults.find(name.substr(0, name.find('_')));
  if (fault == faults.end()) {
    return nullptr;
  }
  auto const does = fault->second;
  auto const rest = name.substr(fault->first.size());
  if (rest == "_in_a_product") {
    return [=](Job& job) { zeroth::testing::train_with_muon(job, does); };
  }
  if (rest == "_as_worker" || rest == "_as_server") {  // of three ranks
    return [=, victim = rest == "_as_worker" ? 1 : 2](Job& job) {
      zeroth::testing::train_with_a_server(job, does, victim);
    };
  }
  if (rest == "_before_ties") {
    return [=](Job& job) { zeroth::testing::train_with_ties(job, does); };
  }
  if (auto const place = places.find(rest); place != places.end()) {
    return [=, where = place->second](Job& job) { zeroth::testing::train_on_tensor_ranks(job, does, where); };
  }
  constexpr std::string_view in_stage = "_in_stage_";
  if (!rest.starts_with(in_stage)) {
    return nullptr;
  }
  auto const victim = std::stoi(rest.substr(in_stage.size()));
  return [=](Job& job) { zeroth::testing::train_in_stages(job, does, victim); };
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  arguments.scenario = argc > 1 ? argv[1] : "";
  for (int i = 2; i + 1 < argc; i += 2) {
    std::string const key = argv[i];
    std::string const value = argv[i + 1];
    if (key == "--ranks") {
      arguments.ranks = std::stoi(value);
    } else if (key == "--comm") {
      arguments.transport = zeroth::comm::transport_named(value);
    } else if (key == "--timeout") {
      arguments.timeout = std::chrono::milliseconds{std::stoi(value)};
    } else if (key == "--threads") {
      arguments.threads = std::stoi(value);
    } else if (key == "--grace") {
      arguments.grace = std::chrono::milliseconds{std::stoi(value)};
    } else if (key == "--join-timeout") {
      arguments.join_timeout = std::chrono::milliseconds{std::stoi(value)};
    } else if (key == "--stopped") {
      arguments.stopped = std::stoi(value);
    } else if (key == "--stop-grace") {
      arguments.stop_grace = std::chrono::milliseconds{std::stoi(value)};
    }
  }
  return arguments;
}

/// The rank from the variables of Open MPI's or MPICH's mpirun.
int rank_to_be() {
  for (char const* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (char const* const rank = std::getenv(name)) {
      return std::stoi(rank);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments const arguments = parse(argc, argv);
  auto const scenario = scenarios.find(arguments.scenario);
  auto const engine_scenario = engine_scenarios.find(arguments.scenario);
  auto const train =
      engine_scenario == engine_scenarios.end() ? stage_scenario(arguments.scenario) : engine_scenario->second;
  if (scenario == scenarios.end() && !train) {
    fmt::print(stderr, "no scenario '{}'\n", arguments.scenario);
    return 2;
  }
  zeroth::LaunchOptions const options{.thread_ranks = arguments.ranks,
                                      .transport = arguments.transport,
                                      .join_timeout = arguments.join_timeout,
                                      .failure_grace = arguments.grace,
                                      .stop_grace = arguments.stop_grace};
  if (arguments.threads) {
    zeroth::testing::leave_threads(*arguments.threads);
  }
  if (arguments.stopped && rank_to_be() == *arguments.stopped) {
    say(fmt::format("rank {} is process {}.", *arguments.stopped, ::getpid()));
    std::raise(SIGSTOP);
  }
  int const status = zeroth::launch(options, [&](zeroth::Job& job) {
    if (train) {
      return train(job);
    }
    Rank rank{job, arguments};
    scenario->second(rank);
  });
  say("launch has returned.");
  bool const has_saved = status == zeroth::ExitCode::done && arguments.scenario == "save_when_stopped";
  return has_saved ? zeroth::ExitCode::stopped : status;
}
