// SPDX-License-Identifier: Apache-2.0
/// Steps in the steady state: the math is work of the caller's stream, and the host waits for nothing in between.
#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/contribute.hpp"
#include "cuda/counted_calls.hpp"
#include "cuda/gate.hpp"
#include "cuda/gpus.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

template <Element T, GradientOf<T> G>
std::vector<StepReport> train_on_gpu(Engine<T, G>& engine, SmallModel const& small, int steps) {
  return train(engine, steps, [&](auto& micro, int) { micro_step_on_gpu(micro, small, cuda_stream(engine)); });
}

std::vector<std::uint32_t> bits(std::vector<StepReport> const& reports) {
  std::vector<std::uint32_t> all;
  for (auto const& report : reports) {
    for (float const value : {report.loss, report.grad_norm, report.learning_rate, report.loss_scale}) {
      all.push_back(bits_of_number(value));
    }
    all.push_back(report.skipped ? 1 : 0);
  }
  return all;
}

/// Reports of rank 0.
template <class Train>
std::vector<StepReport> reports_of(int world, Config const& config, MakeDevice const& make_device, Train const& train) {
  std::vector<StepReport> reports;
  auto const outcome = run_job(
      world,
      [&](Job& job) {
        with_precision(config, [&]<class T, class G>(Precision<T, G>) {
          SmallModel const small;
          Engine<T, G> engine{job, small.model, config};
          auto const mine = train(engine, small);
          if (job.rank() == 0) {
            reports = mine;
          }
        });
      },
      {}, make_device);
  REQUIRE(messages_of(outcome) == "");
  return reports;
}

std::unique_ptr<device::Device> gpu(int /*rank*/) { return device::make_cuda_device(0); }

/// Calls of all ranks in steps 4 to 8; `each_step` is called by rank 0 at the end of each.
template <class EachStep>
Calls steps_4_to_8(int world, Config const& config, EachStep const& each_step) {
  Calls before, result;
  std::barrier<> together{world};
  auto const begin = [&] { before = counted_calls(); };
  auto const end = [&] { result = since(before); };
  auto const outcome = run_job(
      world, [&](Job& job) { eight_steps_on_gpu(job, config, together, begin, each_step, end); }, {}, gpu);
  REQUIRE(messages_of(outcome) == "");
  return result;
}

/// Calls `give_up` if it exists for longer than a host that does not wait for a GPU could need.
class Patience {
 public:
  explicit Patience(std::function<void()> give_up)
      : thread_{[this, give_up = std::move(give_up)] {
          std::unique_lock lock{mutex_};
          if (!changed_.wait_for(lock, std::chrono::minutes{2}, [this] { return over_; })) {
            give_up();
          }
        }} {}
  Patience(Patience const&) = delete;
  Patience& operator=(Patience const&) = delete;
  ~Patience() {
    {
      std::lock_guard const lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Settings of zero_optimization: half of the states are swapped, concurrently with updates or in line with them.
char const* const offloads[] = {
    R"(, "sub_group_size": 1, "offload_optimizer": {"device": "cpu", "ratio": 0.5})",
    R"(, "offload_optimizer": {"device": "cpu", "pipeline_read": true, "pipeline_write": true})",
    R"(, "offload_optimizer": {"device": "cpu", "pipeline_read": false, "pipeline_write": false})"};
/// Settings of zeroth: updates by the GPU, and by the host.
char const* const offload_updates[] = {"", R"(, "offload_update": "host")"};

/// Functions that only enqueue, or only query.
std::set<std::string> const harmless{"cudaMemcpyAsync", "cudaMemsetAsync",   "cudaStreamWaitEvent",
                                     "cudaEventRecord", "cudaEventQuery",    "cudaEventElapsedTime",
                                     "launch",          "cudaLaunchHostFunc"};

}  // namespace

TEST_CASE("kernels on the caller's stream, never waited for, give the CPU's reports") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const more : {"", R"(, "bf16": {"enabled": true})", R"(, "fp16": {"enabled": true})"}) {
      auto const config = small_config(stage, {.zeroth = R"(, "poison": true)", .more = more});
      INFO(fmt::format("stage {}{}", stage, more));
      auto const base =
          reports_of(3, config, {}, [](auto& engine, SmallModel const& small) { return train(engine, small, 6); });
      for (unsigned const delays : {0U, 5U}) {
        begin_on({.delays = delays});
        auto const reports = reports_of(
            3, config, gpu, [](auto& engine, SmallModel const& small) { return train_on_gpu(engine, small, 6); });
        CHECK(reports.size() == 6);
        CHECK(bits(reports) == bits(base));
        CHECK(left_on_gpus() == "");
      }
    }
  }
}

TEST_CASE("steps 4 to 8 allocate nothing and wait for nothing in CUDA", "[host]") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool const overlap : {true, false}) {
      for (auto const* const more : {"", R"(, "fp16": {"enabled": true})", R"(, "communication_data_type": "bf16")"}) {
        INFO(fmt::format("stage {}, overlap {}{}", stage, overlap, more));
        auto const zero = fmt::format(R"(, "overlap_comm": {})", overlap);
        begin_on({});
        auto const calls = steps_4_to_8(4, small_config(stage, {.zero = zero, .more = more}), [] {});
        for (auto const& [function, count] : calls) {
          INFO(fmt::format("{} calls of {}", count, function));
          CHECK(harmless.contains(function));
        }
        CHECK(calls.at("launch") > 0);
#ifndef ZEROTH_ON_GPU
        CHECK(counted_calls("load") > 0);  // kernels were loaded in earlier steps; loading may make the host wait
#endif
      }
    }
  }
}

TEST_CASE("steps 4 to 8 allocate nothing and wait for nothing in CUDA with states in host memory", "[host]") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const offload : offloads) {
      for (auto const* const update : offload_updates) {
        INFO(fmt::format("stage {}{}{}", stage, offload, update));
        begin_on({});
        auto const calls = steps_4_to_8(3, small_config(stage, {.zero = offload, .zeroth = update}), [] {});
        for (auto const& [function, count] : calls) {
          INFO(fmt::format("{} calls of {}", count, function));
          CHECK(harmless.contains(function));
        }
        // Two states in and out, of each rank in each step; or a gradient and parameters in, parameters and scalars
        // out.
        CHECK(calls.at("cudaMemcpyAsync") >= 5 * 3 * 4);
        CHECK(calls.contains("cudaLaunchHostFunc") == (*update != '\0'));
      }
    }
  }
}

TEST_CASE("the counter detects a loop that allocates", "[host]") {
  begin_on({});
  auto const calls = steps_4_to_8(2, small_config(1), [] {
    void* memory = nullptr;
    static_cast<void>(cudaMalloc(&memory, 100));
    static_cast<void>(cudaFree(memory));
  });
  CHECK(calls.at("cudaMalloc") == 5);
  CHECK(calls.at("cudaFree") == 5);
}

TEST_CASE("step() returns while its own work is delayed", "[host]") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const& [world, zero, update] : {std::tuple{1, "", ""},
                                              {2, "", ""},
                                              {1, offloads[stage % 3], ""},
                                              {2, offloads[2 - stage % 3], ""},
                                              {1, offloads[2 - stage % 3], offload_updates[1]},
                                              {2, offloads[stage % 3], offload_updates[1]}}) {
      INFO(fmt::format("stage {}, {} ranks{}{}", stage, world, zero, update));
      begin_on({});
      auto const config = small_config(stage, {.zero = zero, .zeroth = update});
      std::vector<device::Device*> devices(static_cast<std::size_t>(world));
      std::vector<std::int64_t> reported(devices.size());
      std::atomic<int> forced{0};
      auto const outcome = run_job(
          world,
          [&](Job& job) {
            auto const rank = static_cast<std::size_t>(job.rank());
            SmallModel const small;
            Engine<float> engine{job, small.model, config};
            Gate gate{*devices[rank]};
            for (int step = 1; step <= 3; ++step) {
              static_cast<void>(step_on_gpu(engine, small));
            }
            micro_steps_on_gpu(engine, small);
            gate.enqueue_on(devices[rank]->compute());
            std::optional<StepReport> report;
            {
              Patience const patience{[&] {
                ++forced;
                gate.open();
              }};
              report = engine.step();
            }
            gate.open();
            reported[rank] = report ? report->step : -1;
            engine.finish();
          },
          {},
          [&](int rank) {
            auto made = device::make_cuda_device(0);
            devices[static_cast<std::size_t>(rank)] = made.get();
            return made;
          });
      REQUIRE(messages_of(outcome) == "");
      CHECK(forced == 0);
      CHECK(reported == std::vector<std::int64_t>(devices.size(), 3));
      CHECK(left_on_gpus() == "");
    }
  }
}

TEST_CASE("only step() asks whether work has passed", "[host]") {
  begin_on({});
  auto const config = small_config(3);
  std::int64_t asked = -1;
  auto const outcome = run_job(
      1,
      [&](Job& job) {
        SmallModel const small;
        Engine<float> engine{job, small.model, config};
        for (int step = 1; step <= 4; ++step) {
          auto const before = counted_calls("cudaEventQuery") + counted_calls("cudaStreamQuery");
          for (auto micro : engine.micro_steps()) {
            forward(micro, small);
            float const seed = micro.report_loss(1);
            for (auto u = small.units.size(); u-- > 0;) {
              auto const p = micro.backward(small.units[u]);
              enqueue_contribution(p, small.weights[u], micro.first_sample(), seed, cuda_stream(engine));
            }
          }
          asked = counted_calls("cudaEventQuery") + counted_calls("cudaStreamQuery") - before;
          static_cast<void>(engine.step());
        }
        engine.finish();
      },
      {}, gpu);
  REQUIRE(messages_of(outcome) == "");
  CHECK(asked == 0);
}

TEST_CASE("an engine computes on the caller's own stream", "[host]") {
  begin_on({});
  auto const config = small_config(2);
  bool same = false;
  std::vector<StepReport> reports;
  auto const outcome = run_job(
      1,
      [&](Job& job) {
        cudaStream_t mine = nullptr;
        static_cast<void>(cudaStreamCreateWithPriority(&mine, cudaStreamNonBlocking, 0));
        job.compute_on(stream_ref(mine));
        {
          SmallModel const small;
          Engine<float> engine{job, small.model, config};
          same = cuda_stream(engine) == mine;
          reports = train_on_gpu(engine, small, 3);
        }
        static_cast<void>(cudaStreamDestroy(mine));
      },
      {}, gpu);
  REQUIRE(messages_of(outcome) == "");
  CHECK(same);
  auto const base =
      reports_of(1, config, {}, [](auto& engine, SmallModel const& small) { return train(engine, small, 3); });
  CHECK(bits(reports) == bits(base));
  CHECK(left_on_gpus() == "");
}

}  // namespace zeroth::testing
