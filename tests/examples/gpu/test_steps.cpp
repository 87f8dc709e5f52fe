// SPDX-License-Identifier: Apache-2.0
/// train_gpt's loop on a GPU or an emulated one, against the same loop on the CPU.
#include <map>
#include <string>
#include <vector>

#include "cuda/gpus.hpp"
#include "examples/gpu/training.hpp"
#include "gpu/training.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/cublas_lt.hpp"
#include "train.hpp"
#endif

namespace gpt {
namespace {

using namespace testing;
using zeroth::testing::sampled;

Left on_gpu(Run const& run, Folder const& folder = {}, zeroth::testing::Gpus const& gpus = {}) {
  zeroth::testing::begin_on(gpus);
  auto left = train_in(folder, run, as_threads([](int) { return zeroth::device::make_cuda_device(0); }), train_on_gpu);
  REQUIRE(zeroth::testing::left_on_gpus() == "");
  return left;
}

/// Bounds of losses against the CPU in fp32: rounding in another order for fp32; for 16 bits the roundings of
/// parameters and activations, 2^-9 and 2^-11 each.
struct Precision {
  char const* name;
  std::string keys;
  double bound;
};
Precision const precisions[] = {{"fp32", "", 1e-5}, {"bf16", bf16_keys, 5e-3}, {"fp16", fp16_keys, 2e-3}};

}  // namespace

TEST_CASE("20 steps on a GPU have the losses of the CPU in fp32") {
  auto const row = GENERATE(from_range(std::begin(precisions), std::end(precisions)));
  INFO(row.name);
  static Left const cpu = on_cpu({});
  auto const gpu = on_gpu({.precision = row.keys});
  CHECK(gpu.steps.size() == 20);
  CHECK(worst_loss(cpu, gpu) < row.bound);
  CHECK(gpu.steps.back()["loss"].get<double>() < 0.97 * gpu.steps.front()["loss"].get<double>());
  CHECK(gpu.weights.size() == cpu.weights.size());
}

TEST_CASE("20 steps of Muon on a GPU have the losses of the CPU, and every stage the same bits") {
  auto const keys = GENERATE(from_range(sampled(std::vector{bf16_keys, std::string{}}, 2)));
  INFO(keys);
  Run run{.ranks = 2, .precision = keys, .everywhere = true};
  run.optimizer = R"("type": "Muon", "params": {"lr": 0.02, "adam_lr": 3e-3, "weight_decay": 0.1})";
  auto const gpu = on_gpu(run);
  CHECK(worst_loss(on_cpu(run), gpu) < 5e-3);
  CHECK(gpu.steps.back()["loss"].get<double>() < 0.97 * gpu.steps.front()["loss"].get<double>());
  run.steps = 4;
  auto const few = on_gpu(run);
  for (int const stage : sampled(std::vector{0, 1, 2}, 3)) {
    run.stage = stage;
    INFO("stage " << run.stage);
    auto const other = on_gpu(run);
    CHECK(numbers(other) == numbers(few));
    CHECK(other.weights == few.weights);
  }
}

// Tensor ranks sum products of parts, in another order than one rank: rounding.
TEST_CASE("tensor ranks on GPUs have the losses of one rank on the CPU") {
  auto const tensor = GENERATE(1, 2);
  auto const divides_rows = GENERATE(false, true);
  auto const untied_head = GENERATE(false, true);
  bool const is_one_of_few = tensor == 2 && divides_rows != untied_head;
  if ((tensor == 1 && divides_rows) || (zeroth::testing::sparse_grids() && !is_one_of_few)) {
    return;
  }
  CAPTURE(tensor, divides_rows, untied_head);
  Run run{.steps = 6, .dropout = 0.1F, .untied_head = untied_head};
  auto const cpu = on_cpu(run);
  run.ranks = tensor;
  run.tensor = tensor;
  run.divides_rows = divides_rows;
  auto const gpu = on_gpu(run);
  CHECK(gpu.steps.size() == 6);
  CHECK(worst_loss(cpu, gpu) < 1e-5);
  CHECK(gpu.weights.size() == cpu.weights.size());
}

TEST_CASE("every stage gives the same bits with tensor ranks on GPUs, kept or recomputed, late or not") {
  auto const keys = GENERATE(as<std::string>{}, "", bf16_keys, fp16_keys);
  bool const divides_rows = GENERATE(false, true);
  if (zeroth::testing::sparse_grids() && (keys != fp16_keys || !divides_rows)) {
    return;
  }
  CAPTURE(keys, divides_rows);
  Run run{.ranks = 4, .stage = 2, .steps = 3, .precision = keys, .dropout = 0.1F, .tensor = 2};
  run.divides_rows = divides_rows;
  run.layers = 3;  // one input more than there are slots for offloaded ones
  auto const base = on_gpu(run);
  CHECK(base.steps.size() == 3);
  run.stage = 3;
  run.recompute = true;
  run.offload = divides_rows != keys.empty();  // with rows divided and not, and in each precision
  auto const recomputed = on_gpu(run, {}, {.delays = 3});
  CHECK(numbers(recomputed) == numbers(base));
  CHECK(recomputed.weights == base.weights);
}

TEST_CASE("a GPU drops what the CPU drops") {
  auto const cpu = on_cpu({.steps = 6, .dropout = 0.2F});
  auto const gpu = on_gpu({.steps = 6, .dropout = 0.2F});
  CHECK(worst_loss(cpu, gpu) < 1e-5);
  CHECK(worst_loss(on_cpu({.steps = 6}), gpu) > 1e-3);
}

TEST_CASE("a run on a GPU goes on bit for bit from what another one has saved while it trained", "[host]") {
  auto const keys = GENERATE(as<std::string>{}, "", bf16_keys, fp16_keys);
  INFO(keys);
  if (zeroth::testing::sparse_grids() && keys != bf16_keys) {
    return;
  }
  auto const straight = on_gpu({.ranks = 2, .stage = 3, .steps = 7, .precision = keys});
  Folder const folder;
  auto const first = on_gpu({.ranks = 2, .stage = 2, .steps = 4, .precision = keys, .save_every = 3}, folder);
  auto const second = on_gpu({.ranks = 2, .stage = 3, .steps = 7, .precision = keys, .save_every = 3}, folder);
  CHECK(folder.contents() == "model report saved text ");
  REQUIRE(first.steps.size() == 4);
  REQUIRE(second.steps.size() == 3);
  auto all = numbers(first);
  auto const rest = numbers(second);
  all.insert(all.end(), rest.begin(), rest.end());
  CHECK(all == numbers(straight));
  CHECK(second.weights == straight.weights);
  for (auto const* const step : {"3", "4", "6", "7"}) {
    CHECK(std::filesystem::exists(folder / (std::string{"saved/step_0000000"} + step + "/checkpoint.json")));
  }
}

TEST_CASE("every stage gives the same bits on a GPU, kept or recomputed, with dropout, too") {
  float const dropout = GENERATE(from_range(sampled(std::vector{0.1F, 0.0F}, 2)));
  auto const base = on_gpu({.ranks = 2, .stage = 2, .steps = 3, .dropout = dropout});
  auto const stage_3 = on_gpu({.ranks = 2, .stage = 3, .steps = 3, .dropout = dropout});
  auto const recomputed = on_gpu({.ranks = 2, .stage = 3, .steps = 3, .recompute = true, .dropout = dropout});
  CHECK(base.steps.size() == 3);
  CHECK(numbers(stage_3) == numbers(base));
  CHECK(numbers(recomputed) == numbers(base));
  CHECK(stage_3.weights == base.weights);
  CHECK(recomputed.weights == base.weights);
  Run four{.ranks = 2, .stage = 3, .steps = 3, .dropout = dropout, .everywhere = true, .layers = 4};
  auto const kept = on_gpu(four);
  four.recompute = four.offload = true;  // four inputs take turns in two slots
  for (int const stage : {0, 3}) {
    four.stage = stage;
    auto const offloaded = on_gpu(four);
    CHECK(numbers(offloaded) == numbers(kept));
    CHECK(offloaded.weights == kept.weights);
    for (auto const& memory : offloaded.memory) {
      CHECK(memory["planned"] == memory["measured_peak"]);
    }
  }
}

TEST_CASE("layouts of attention on GPUs have the losses of the CPU, and every stage the same bits") {
  auto const row = GENERATE(from_range(sampled(std::vector(std::rbegin(precisions), std::rend(precisions)), 3)));
  INFO(row.name);
  Run run{.ranks = 2, .stage = 2, .steps = 3, .precision = row.keys, .context = 64};
  auto const dense = on_gpu(run);
  run.layout = R"("mode": "dense", "attention": "unidirectional", "block": 16)";
  auto const as_dense = on_gpu(run);
  CHECK(numbers(as_dense) == numbers(dense));
  CHECK(as_dense.weights == dense.weights);
  run.layout = R"("mode": "bigbird", "attention": "unidirectional", "block": 16, "different_layout_per_head": true,
                  "num_random_blocks": 1, "num_sliding_window_blocks": 1)";
  auto const sparse = on_gpu(run);
  CHECK(sparse.weights != dense.weights);
  auto on_cpus = run;
  on_cpus.precision = "";
  CHECK(worst_loss(on_cpu(on_cpus), sparse) < row.bound);
  run.stage = 3;
  run.recompute = true;
  auto const recomputed = on_gpu(run);
  CHECK(numbers(recomputed) == numbers(sparse));
  CHECK(recomputed.weights == sparse.weights);
}

TEST_CASE("tensor ranks on GPUs have the layouts of their own heads") {
  Run run{.steps = 3, .context = 64};
  run.layout = R"("mode": "fixed", "attention": "unidirectional", "block": 16, "different_layout_per_head": true,
                  "num_local_blocks": 2, "num_different_global_patterns": 2)";
  auto const cpu = on_cpu(run);
  run.ranks = run.tensor = 2;
  run.divides_rows = GENERATE(false, true);
  auto const gpu = on_gpu(run);
  CHECK(gpu.steps.size() == 3);
  CHECK(worst_loss(cpu, gpu) < 1e-5);
}

#ifndef ZEROTH_ON_GPU
namespace {

namespace fake_cuda = zeroth::testing::fake_cuda;

/// Counts calls from the fourth step on, between the engine's steps and in total.
template <zeroth::Element T, zeroth::GradientOf<T> G>
class CountingSteps : public gpu::MicroSteps<T, G> {
 public:
  using gpu::MicroSteps<T, G>::MicroSteps;
  void run(zeroth::MicroStep<T, G>& micro, Batch const& batch) {
    auto const before = fake_cuda::calls();
    if (++micro_steps == 7) {
      at_start() = before;
      asked_at_start() = fake_cuda::heuristics_asked();
    }
    gpu::MicroSteps<T, G>::run(micro, batch);
    if (micro_steps >= 7) {
      for (auto const& [function, count] : fake_cuda::calls()) {
        auto const found = before.find(function);
        in_micro_steps()[function] += count - (found == before.end() ? 0 : found->second);
      }
    }
    at_end() = fake_cuda::calls();
    asked_at_end() = fake_cuda::heuristics_asked();
  }
  using Calls = std::map<std::string, std::int64_t>;
  static Calls& at_start() {
    static Calls calls;
    return calls;
  }
  static Calls& at_end() {
    static Calls calls;
    return calls;
  }
  /// Algorithms of products.
  static std::int64_t& asked_at_start() {
    static std::int64_t asked = 0;
    return asked;
  }
  static std::int64_t& asked_at_end() {
    static std::int64_t asked = 0;
    return asked;
  }
  static Calls& in_micro_steps() {
    static Calls calls;
    return calls;
  }

 private:
  int micro_steps = 0;
};
struct Counted : gpu::OnGpu {
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using MicroSteps = CountingSteps<T, G>;
};

}  // namespace

TEST_CASE("steps in the steady state allocate nothing, and micro-steps wait for nothing", "[host]") {
  fake_cuda::reset();
  auto const asked_before = fake_cuda::heuristics_asked();
  Folder const folder;
  Run run{.steps = 8, .precision = bf16_keys};
  if (GENERATE(false, true)) {
    run.context = 48;
    run.layout = R"("mode": "local_sliding_window", "attention": "unidirectional", "block": 16)";
  }
  auto const left = train_in(folder, run, as_threads([](int) { return zeroth::device::make_cuda_device(0); }),
                             [](zeroth::Job& job, Task const& task) {
                               train<Counted>(job, task, zeroth::Precision<zeroth::bf16, zeroth::bf16>{});
                             });
  CHECK(left.steps.size() == 8);
  using Counting = CountingSteps<zeroth::bf16, zeroth::bf16>;
  for (char const* const function : {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost",
                                     "cudaEventCreateWithFlags", "cudaStreamCreateWithPriority"}) {
    INFO(function);
    CHECK(Counting::at_end()[function] == Counting::at_start()[function]);
  }
  CHECK(Counting::asked_at_start() > asked_before);  // at first use
  CHECK(Counting::asked_at_end() == Counting::asked_at_start());
  CHECK(Counting::in_micro_steps()["cudaStreamQuery"] == 0);
  CHECK(Counting::in_micro_steps()["cudaEventQuery"] == 0);
  CHECK(Counting::in_micro_steps()["cudaMemcpyAsync"] >= 10);  // a batch each
  CHECK(Counting::in_micro_steps()["launch"] > 500);
}

TEST_CASE("tensor ranks allocate nothing in the steady state", "[host]") {
  bool const divides_rows = GENERATE(false, true);
  CAPTURE(divides_rows);
  auto const calls_of = [&](int steps) {
    fake_cuda::reset();
    Folder const folder;
    Run run{.ranks = 2, .steps = steps, .precision = bf16_keys, .tensor = 2};
    run.divides_rows = divides_rows;
    auto const left =
        train_in(folder, run, as_threads([](int) { return zeroth::device::make_cuda_device(0); }), train_on_gpu);
    CHECK(left.steps.size() == static_cast<std::size_t>(steps));
    return fake_cuda::calls();
  };
  auto few = calls_of(4);
  auto more = calls_of(8);
  CHECK(more["launch"] > few["launch"]);
  for (char const* const function : {"cudaMalloc", "cudaHostAlloc", "cudaEventCreateWithFlags"}) {
    INFO(function);
    CHECK(more[function] == few[function]);
  }
}

TEST_CASE("ranks with a GPU each train as those that share one", "[host]") {
  Run const run{.ranks = 2, .stage = 3, .steps = 3, .precision = bf16_keys};
  auto const base = on_gpu(run);
  fake_cuda::reset({.gpus = 2});
  {
    Folder const folder;
    auto const apart = train_in(
        folder, run, as_threads([](int rank) { return zeroth::device::make_cuda_device(rank); }), train_on_gpu);
    CHECK(apart.weights == base.weights);
    CHECK(worst_loss(base, apart) == 0);
  }
  CHECK(fake_cuda::leftovers() == "");
}

TEST_CASE("work that comes late changes nothing") {
  Run const run{.ranks = 2, .stage = 3, .steps = 4};
  auto const base = on_gpu(run);
  fake_cuda::reset({.delays = 5});
  Folder const folder;
  auto const late =
      train_in(folder, run, as_threads([](int) { return zeroth::device::make_cuda_device(0); }), train_on_gpu);
  CHECK(late.weights == base.weights);
  CHECK(worst_loss(base, late) == 0);
}

TEST_CASE("a matrix that did not get memory has none, and takes it the next time", "[host]") {
  fake_cuda::reset();
  static_cast<void>(cudaSetDevice(0));
  {
    gpu::Matrix<float> matrix;
    matrix.resize(10, 10);
    fake_cuda::refuse("cudaMalloc", cudaErrorMemoryAllocation);
    CHECK_THROWS_WITH(matrix.resize(20, 20),
                      Catch::Contains("cudaMalloc of 1600 bytes for activations: out of memory"));
    CHECK(matrix.data() == nullptr);
    matrix.resize(10, 10);
    CHECK(matrix.data() != nullptr);
  }
  CHECK(fake_cuda::leftovers() == "");
}

TEST_CASE("a GPU without memory for activations ends the run with a message", "[host]") {
  fake_cuda::reset();
  auto const config = config_of({});
  auto const outcome = zeroth::testing::run_job(
      1,
      [&](zeroth::Job& job) {
        zeroth::Model model{1};
        GptParams const params{model, shape};
        zeroth::Engine<float> engine{job, model, config};
        fake_cuda::refuse("cudaMalloc", cudaErrorMemoryAllocation);
        Options const options;
        gpu::MicroSteps<float, float> const micro_steps{engine, params, options, {}, config.settings(1, 1)};
      },
      {}, [](int) { return zeroth::device::make_cuda_device(0); });
  CHECK_THAT(zeroth::testing::messages_of(outcome),
             Catch::Matches("(.|\n)*cudaMalloc of [1-9][0-9]+ bytes for activations: out of memory(.|\n)*"));
  CHECK(fake_cuda::leftovers() == "");
}
#endif

}  // namespace gpt
