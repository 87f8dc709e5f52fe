// SPDX-License-Identifier: Apache-2.0
/// Measures the engine's overhead on the caller's thread: a step on the CPU with a communicator that does nothing,
/// without math or waiting. Each rank owns 128 elements of each unit, and four units are prefetched. Reports the time
/// per unit and pass, over a step's forward and backward pass through all units. Also reports the time of an update of
/// 128 elements per unit at stages 1 to 3 (at stage 0 every rank updates everything).
///
/// bench_engine_overhead [ROUNDS]        prints one JSON object per stage, number of units and number of ranks
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "command_line.hpp"
#include "paired.hpp"
#include "simulate/mirrored_ranks.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth {
namespace {

/// Accepts transactions without moving data, as if all ranks had equal data.
class IdleCommunicator final : public comm::Communicator {
 public:
  IdleCommunicator(int world, std::string name) : world_{world}, name_{std::move(name)}, recorder_{0, world} {}
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int world() const noexcept override { return world_; }
  [[nodiscard]] int job_rank(int rank) const noexcept override { return rank; }
  [[nodiscard]] comm::Transport transport() const noexcept override { return comm::Transport::local; }
  [[nodiscard]] std::string const& name() const noexcept override { return name_; }
  [[nodiscard]] comm::FlightRecorder& recorder() noexcept override { return recorder_; }
  void set_options(comm::CommOptions const& /*options*/) override {}
  void set_staging(std::span<std::byte> /*staging*/) override {}
  void abort(std::string const& /*reason*/) noexcept override {}
  [[nodiscard]] std::optional<std::string> failure() const override { return std::nullopt; }

 private:
  void do_submit(device::Stream& stream, comm::Label const& /*label*/,
                 std::span<comm::Collective const> collectives) override {
    for (auto const& each : collectives) {
      device::as_cpu(stream).post([each, world = world_] {
        if (each.dtype == Dtype::int64 || each.dtype == Dtype::fp64) {  // numbers that the engine compares and reads
          simulate::exchange_with_mirrors(each, world, world);
        }
      });
    }
  }
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int /*color*/, int /*key*/,
                                                             std::string const& name) override {
    return std::make_unique<IdleCommunicator>(world_, name);
  }

  int world_;
  std::string name_;
  comm::FlightRecorder recorder_;
};

/// Seconds of the caller's thread per step, medians over rounds.
struct Times {
  double passes = 0, update = 0;
};

Times measure(int stage, int units, int world, int rounds) {
  detail::JobState state;
  state.communicator = std::make_unique<IdleCommunicator>(world, "world");
  auto job = state.job();
  Model model;
  std::vector<Unit> ids;
  std::vector<Param<1>> weights;
  std::int64_t const count = std::int64_t{128} * world;  // a size without padding
  for (int i = 0; i < units; ++i) {
    ids.push_back(model.unit(fmt::format("block{}", i)));
    weights.push_back(model.param(ids.back(), fmt::format("block{}.w", i), {count}, Constant{1}));
  }
  Engine<float> engine{job, model,
                       Config::from_json(fmt::format(
                           R"({{"train_micro_batch_size_per_gpu": 1,
                                "zero_optimization": {{"stage": {}, "overlap_comm": false,
                                                        "stage3_prefetch_bucket_size": {}}}}})",
                           stage, 4 * count))};
  auto const passes = [&] {
    for (auto micro : engine.micro_steps()) {
      for (auto const id : ids) {
        auto const p = micro.forward(id);
      }
      float const seed = micro.report_loss(1);
      for (auto i = ids.size(); i-- > 0;) {
        auto const p = micro.backward(ids[i]);
        *p.grad(weights[i]).data() = seed;
      }
    }
  };
  int const repeats = std::max(1, 2000 / units);
  std::vector<double> of_passes, of_updates;
  for (int round = -1; round < rounds; ++round) {
    Times sum;
    for (int i = 0; i < repeats; ++i) {
      sum.passes += bench::seconds(passes);
      sum.update += bench::seconds([&] { static_cast<void>(engine.step()); });
    }
    if (round >= 0) {
      of_passes.push_back(sum.passes / repeats);
      of_updates.push_back(sum.update / repeats);
    }
  }
  return {bench::quantile(of_passes, 0.5), bench::quantile(of_updates, 0.5)};
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"What the engine's bookkeeping costs the caller's thread"};
  int rounds = 15;
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  CLI11_PARSE(app, argc, argv);
  for (int const stage : {0, 1, 2, 3}) {
    for (int const units : {1, 10, 100, 1000}) {
      for (int const world : {1, 8, 64, 1024}) {
        try {
          auto const times = zeroth::measure(stage, units, world, rounds);
          nlohmann::ordered_json const line{{"benchmark", "engine_overhead"},
                                            {"stage", stage},
                                            {"units", units},
                                            {"ranks", world},
                                            {"us_per_unit_and_pass", 1e6 * times.passes / (2 * units)},
                                            {"update_us_per_unit", 1e6 * times.update / units}};
          std::cout << line.dump() << std::endl;
        } catch (zeroth::ConfigError const& error) {  // this machine has too little memory for so many ranks
          std::cerr << error.what() << '\n';
        }
      }
    }
  }
  return 0;
}
