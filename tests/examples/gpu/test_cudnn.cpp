// SPDX-License-Identifier: Apache-2.0
/// train_gpt's attention by cuDNN, or by a cuDNN of the tests' own, through cudnn-frontend, against its own kernels.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/gpus.hpp"
#include "examples/gpu/device_pass.hpp"
#include "examples/gpu/training.hpp"
#include "gpu/cudnn_attention.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"
#include "zeroth/device/cuda.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/cudnn.hpp"
#ifdef ZEROTH_HAS_NCCL
#include "examples/gpu/training_over_nccl.hpp"
#endif
#endif

namespace gpt {
namespace {

using namespace testing;
using Catch::Contains;
using zeroth::testing::sampled;
using zeroth::testing::thrown;
#ifdef ZEROTH_ON_GPU
/// Warns if not.
bool has_cudnn() {
  try {
    return !gpu::load_cudnn_attention().empty();
  } catch (zeroth::Error const& error) {
    WARN("skipped: " << error.what());
    return false;
  }
}
std::int64_t runs_of_cudnn(std::int64_t otherwise) { return otherwise; }
#else
namespace fake_cuda = zeroth::testing::fake_cuda;
bool has_cudnn() { return true; }
std::int64_t runs_of_cudnn(std::int64_t /*otherwise*/) { return fake_cuda::cudnn_runs(); }
#endif

Left on_gpu(Run const& run) {
  zeroth::testing::begin_on({});
  Folder const folder;
  auto left = train_in(folder, run, as_threads([](int) { return zeroth::device::make_cuda_device(0); }), train_on_gpu);
  REQUIRE(zeroth::testing::left_on_gpus() == "");
  return left;
}

gpu::CudnnShape const plans{zeroth::Dtype::bf16, 2, {.count = 3, .width = 16, .context = 20}};

template <class T>
void compare_with_own_kernels(gpu::CudnnShape const& s) {
  zeroth::testing::begin_on({});
  {
    Stream const stream;
    auto const tokens = s.sequences * s.heads.context;
    auto const channels = s.heads.channels();
    auto const qkv = on_device(stream, random_values<T>(tokens * 3 * channels, 1), 3 * channels);
    auto const dy = on_device(stream, random_values<T>(tokens * channels, 2), channels);
    std::vector<DoubleMatrix> outputs, gradients;
    for (bool const is_cudnn : {false, true}) {
      auto cudnn = is_cudnn ? std::make_unique<gpu::CudnnAttention>(stream.raw(), s) : nullptr;
      gpu::Gpu<T> gpu{stream.raw(), {}, nullptr, std::move(cudnn)};
      auto log_sums = on_device(stream, garbage<float>(tokens * s.heads.count), s.heads.count);
      auto y = on_device(stream, garbage<T>(tokens * channels), channels);
      auto dqkv = on_device(stream, garbage<T>(tokens * 3 * channels), 3 * channels);
      gpu.attend(s.heads, qkv, log_sums, y);
      gpu.attend_backward(s.heads, qkv, y, log_sums, dy, dqkv);
      outputs.push_back(matrix(values_of(stream, y), channels));
      gradients.push_back(matrix(values_of(stream, dqkv), 3 * channels));
    }
    auto const apart = [](std::vector<DoubleMatrix> const& both) {
      REQUIRE(both[1].allFinite());
      return (both[1] - both[0]).cwiseAbs().maxCoeff() / both[0].cwiseAbs().maxCoeff();
    };
    CHECK(apart(outputs) < 2 * tolerance<T>);
    CHECK(apart(gradients) < 4 * tolerance<T>);
  }
  CHECK(zeroth::testing::left_on_gpus() == "");
}

}  // namespace

TEST_CASE("attention by cuDNN gives what own kernels give, in rows of queries, keys and values") {
  if (!has_cudnn()) {
    return;
  }
  for (auto const& heads : {AttentionHeads{.count = 3, .width = 16, .context = 20},
                            AttentionHeads{.count = 1, .width = 40, .context = 33}}) {
    INFO(describe(gpu::CudnnShape{zeroth::Dtype::bf16, 2, heads}));
    compare_with_own_kernels<zeroth::bf16>({zeroth::Dtype::bf16, 2, heads});
    compare_with_own_kernels<zeroth::fp16>({zeroth::Dtype::fp16, 2, heads});
  }
}

TEST_CASE("plans of cuDNN refuse other shapes and unaligned addresses") {
  if (!has_cudnn()) {
    return;
  }
  zeroth::testing::begin_on({});
  {
    Stream const stream;
    gpu::CudnnAttention attention{stream.raw(), plans};
    gpu::Matrix<zeroth::bf16> qkv, y;
    gpu::Matrix<float> log_sums;
    qkv.resize(40, 3 * 48);
    y.resize(40, 48);
    log_sums.resize(40, 3);
    auto other = plans;
    other.sequences = 1;
    CHECK_THAT(
        thrown<zeroth::ContractError>([&] { attention.forward(other, qkv.data(), log_sums.data(), y.data()); }),
        Contains("attention of bf16, 1 sequences of 20 tokens, 3 heads of 16 channels by plans for bf16, 2 sequences"));
    CHECK_THAT(
        thrown<zeroth::SystemError>([&] { attention.forward(plans, qkv.data() + 1, log_sums.data(), y.data()); }),
        Contains("execution for bf16, 2 sequences of 20 tokens, 3 heads of 16 channels: "));
    CHECK_NOTHROW(attention.forward(plans, qkv.data(), log_sums.data(), y.data()));
    stream.wait();
  }
  CHECK(zeroth::testing::left_on_gpus() == "");
}

#ifndef ZEROTH_ON_GPU
TEST_CASE("what cuDNN lacks is refused before the first step, and says what to do") {
  zeroth::testing::begin_on({});
  {
    Stream const stream;
    auto const why = [&] {
      return thrown<zeroth::SystemError>([&] { gpu::CudnnAttention const attention{stream.raw(), plans}; });
    };
    fake_cuda::offer_deterministic(false);
    auto const undetermined = why();
    fake_cuda::offer_deterministic(true);
    CHECK_THAT(undetermined, Contains("it has no deterministic plan for the backward of attention of bf16, 2 sequences "
                                      "of 20 tokens, 3 heads of 16 channels; --attention own needs no cuDNN: "));
    fake_cuda::install_cudnn(false);
    auto const missing = why();
    auto const missing_early = thrown<zeroth::SystemError>([] { return gpu::load_cudnn_attention(); });
    fake_cuda::install_cudnn(true);
    CHECK_THAT(missing, Contains("--attention cudnn: no usable cuDNN was found; libcudnn_that_nobody_has.so.9"));
    CHECK(missing_early == missing);
    CHECK(why() == "");
    CHECK_THAT(gpu::load_cudnn_attention(), Contains("cuDNN 9."));
  }
  CHECK(zeroth::testing::left_on_gpus() == "");
}

#endif

TEST_CASE("train_gpt by cuDNN has the losses of its own kernels, and every stage the same bits") {
  if (!has_cudnn()) {
    return;
  }
  auto const keys = GENERATE(from_range(sampled(std::vector{bf16_keys, fp16_keys}, 1)));
  auto const tensor = GENERATE(1, 2);
  CAPTURE(keys, tensor);
  Run run{.ranks = 2 * tensor, .stage = 2, .steps = 5, .precision = keys, .tensor = tensor};
  run.divides_rows = tensor > 1;
  auto const own = on_gpu(run);
  run.attention = AttentionLibrary::cudnn;
  auto const expected_runs = std::int64_t{2} * 2 * 2 * 5 * run.ranks;  // layers, passes, micro-steps
  auto const runs_before = runs_of_cudnn(0);
  auto const cudnn = on_gpu(run);
  CHECK(cudnn.steps.size() == 5);
  CHECK(runs_of_cudnn(expected_runs) - runs_before == expected_runs);
  CHECK(worst_loss(own, cudnn) < 5e-3);
  CHECK(cudnn.weights != own.weights);
  CHECK_THAT(cudnn.run["math"].get<std::string>(), Contains("attention by cuDNN 9."));
  run.stage = 3;
  auto const stage_3 = on_gpu(run);
  run.recompute = true;
  auto const recomputed = on_gpu(run);
  for (auto const& other : {stage_3, recomputed}) {
    CHECK(numbers(other) == numbers(cudnn));
    CHECK(other.weights == cudnn.weights);
  }
}

#ifndef ZEROTH_ON_GPU
TEST_CASE("by cuDNN steps in the steady state allocate nothing, and build no plans") {
  auto const of_steps = [](int steps) {
    auto const plans_before = fake_cuda::cudnn_plans();
    static_cast<void>(on_gpu({.steps = steps, .precision = bf16_keys, .attention = AttentionLibrary::cudnn}));
    auto calls = fake_cuda::calls();
    calls["plans"] = fake_cuda::cudnn_plans() - plans_before;
    return calls;
  };
  auto few = of_steps(4);
  auto more = of_steps(8);
  CHECK(few["plans"] > 0);
  for (char const* const function : {"plans", "cudaMalloc", "cudaHostAlloc", "cudaEventCreateWithFlags"}) {
    INFO(function);
    CHECK(more[function] == few[function]);
  }
}

#ifdef ZEROTH_HAS_NCCL
TEST_CASE("with --step-graph attention by cuDNN has the bits of steps that are not recorded") {
  auto const stage = GENERATE(2, 3);
  CAPTURE(stage);
  Run run{.ranks = 2, .stage = stage, .steps = 8, .precision = bf16_keys, .attention = AttentionLibrary::cudnn};
  run.recompute = stage == 3;
  auto const expected = over_nccl(run);
  run.step_graph = true;
  auto const runs_before = fake_cuda::cudnn_runs();
  auto const recorded = over_nccl(run, 3);
  CHECK(numbers(recorded) == numbers(expected));
  CHECK(recorded.weights == expected.weights);
  auto const per_step = 2 * 2 * run.ranks * (run.recompute ? 3 : 2);  // layers, micro-steps
  CHECK(fake_cuda::cudnn_runs() - runs_before <= 4 * per_step);       // three usual steps and the recorded one
}
#endif
#endif

}  // namespace gpt
