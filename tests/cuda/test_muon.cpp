// SPDX-License-Identifier: Apache-2.0
/// Muon on GPUs: stages are bitwise equal, memory is as planned, and directions equal the CPU's except for rounding.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "cuda/gpus.hpp"
#include "cuda/muon_training.hpp"
#include "device/gpu_matrices.hpp"
#include "support/sanitized.hpp"
#include "zeroth/device/cuda.hpp"
#include "zeroth/engine/plan.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/cublas_lt.hpp"
#endif

namespace zeroth::testing {
namespace {

RunJob on_one_gpu() {
  return threads_on([](int) { return device::make_cuda_device(0); });
}
Trained trained_on_gpu(int world, std::string const& text, MatrixOptions const& options = {}, unsigned delays = 0) {
  begin_on({.delays = delays});
  auto result = trained_matrices(on_one_gpu(), world, text, options);
  REQUIRE(left_on_gpus() == "");
  return result;
}

/// The allowed difference of parameters after four steps, which change a matrix's elements by about 0.02. GPUs and CPUs
/// round products at the same places, but may add them up in another order.
constexpr double tolerance = 0.002;

double largest_difference(Trained const& a, Trained const& b) {
  REQUIRE(a.parameters.size() == b.parameters.size());
  double most = 0;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a.parameters[i]) - static_cast<double>(b.parameters[i])));
  }
  return most;
}

Types const all_types[] = {fp32_types, bf16_types, fp16_types, bf16_reduced_in_fp32, bf16_masters};

}  // namespace

TEST_CASE("Muon on GPUs: stages are bit-equal, and near the CPU") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const world = GENERATE(1, 2, 3);
  static Sample sample{7, 1};
  if (sample.leaves_out()) {
    return;
  }
  INFO(fmt::format("{} ranks, {}", world, types.name));
  auto const base = trained_on_gpu(world, muon_file(types, 0));
  for (int stage = 1; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    REQUIRE(bits_of(trained_on_gpu(world, muon_file(types, stage), {}, 7)) == bits_of(base));
  }
  MatrixOptions on_cpu;
  on_cpu.access = TrainOptions{}.access;
  auto const cpu = trained_matrices(threads_on({}), world, muon_file(types, 0), on_cpu);
  CHECK(largest_difference(base, cpu) < tolerance);
}

TEST_CASE("Muon on GPUs: other numbers of iterations, factors and momenta are near the CPU") {
  for (auto const* const more :
       {R"(, "ns_steps": 1)", R"(, "ns_steps": 2)", R"(, "ns_steps": 4, "adjust_lr_fn": "match_rms_adamw")",
        R"(, "momentum": 0.25, "nesterov": false)", R"(, "ns_method": "gram")",
        R"(, "ns_method": "gram", "ns_steps": 4, "adjust_lr_fn": "match_rms_adamw")"}) {
    INFO(more);
    MatrixOptions on_cpu;
    on_cpu.access = TrainOptions{}.access;
    auto const cpu = trained_matrices(threads_on({}), 2, muon_file(fp32_types, 1, 1, more), on_cpu);
    CHECK(largest_difference(trained_on_gpu(2, muon_file(fp32_types, 1, 1, more)), cpu) < tolerance);
  }
}

TEST_CASE("Muon on GPUs: stages are bit-equal by Gram matrices too") {
  auto const types = GENERATE(from_range(sampled(std::vector<Types>{bf16_types, fp32_types}, 2)));
  auto const text = [&](int stage) { return muon_file(types, stage, 2, R"(, "ns_method": "gram")"); };
  auto const base = trained_on_gpu(3, text(0));
  REQUIRE(bits_of(trained_on_gpu(3, muon_file(types, 0))) != bits_of(base));
  for (int stage = 1; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    CHECK(bits_of(trained_on_gpu(3, text(stage), {}, 7)) == bits_of(base));
  }
}

TEST_CASE("Muon on GPUs: a step that is skipped changes nothing, at every stage") {
  MatrixOptions const options{.overflow_at = 1};
  auto const base = trained_on_gpu(3, muon_file(fp16_types, 0), options);
  CHECK(base.reports.at(1).skipped);
  CHECK_FALSE(base.reports.at(2).skipped);
  for (float const value : base.parameters) {
    REQUIRE(std::isfinite(value));
  }
  for (int stage = 1; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    CHECK(bits_of(trained_on_gpu(3, muon_file(fp16_types, stage), options)) == bits_of(base));
  }
}

TEST_CASE("Muon on GPUs: a plan has the workspace of cuBLASLt", "[host]") {
  Matrices const matrices;
  auto const more_than_on_cpu = [&](char const* more) {
    auto const scratch = [&](DeviceKind device) {
      auto const config = Config::from_json(muon_file(bf16_types, 1, 2, more));
      return plan(matrices.model, config, 2, {.device = device}).bytes.scratch;
    };
    return scratch(DeviceKind::cuda) - scratch(DeviceKind::cpu);
  };
  auto const check = [&](optim::NewtonSchulzMethod method, char const* more, std::int64_t bytes) {
    optim::Muon const rule{.method = method};
    std::int64_t on_gpu = 0, on_cpu = 0;
    for (auto const& param : matrices.model.description().params) {
      if (param.options.matrix) {
        auto const rows = param.shape[0], columns = param.shape[1];
        on_gpu = std::max(on_gpu, device::gpu_matrix_workspace(method, rows, columns).bytes);
        on_cpu = std::max(on_cpu, optim::orthogonal_workspace_bytes(rule, rows, columns));
      }
    }
    CHECK(on_gpu == bytes);
    CHECK(more_than_on_cpu(more) == on_gpu - (on_cpu + 255) / 256 * 256);
  };
  check(optim::NewtonSchulzMethod::standard, "", 3 * 2304 + (32 << 20) + 256 + 256);  // for 33 x 33
  check(optim::NewtonSchulzMethod::gram, R"(, "ns_method": "gram")", 3 * 2304 + (32 << 20) + 256 + 256);
}

TEST_CASE("Muon on GPUs: a program's own products are refused by name", "[host]") {
  auto const config =
      Config::from_json(muon_file(fp32_types, 1)).with(optim::Multiply{[](optim::MatrixProduct const&) {}});
  begin_on({});
  auto const outcome =
      on_one_gpu()(1, [&](Job& job) { static_cast<void>(train_matrices<float, float>(job, config, {})); });
  CHECK_THAT(messages_of(outcome), Catch::Contains("Config::with(optim::Multiply)") && Catch::Contains("cuBLASLt"));
}

#ifndef ZEROTH_ON_GPU
namespace {

/// Returns the error of ranks that call `before_step`.
std::string why_not(std::function<void(int)> const& before_step = [](int) {}) {
  begin_on({});
  MatrixOptions options;
  options.before_step = before_step;
  auto const config = Config::from_json(muon_file(fp32_types, 1));
  auto const outcome =
      on_one_gpu()(1, [&](Job& job) { static_cast<void>(train_matrices<float, float>(job, config, options)); });
  REQUIRE(left_on_gpus() == "");
  return messages_of(outcome);
}

}  // namespace

TEST_CASE("an engine with Muon says that cuBLASLt is missing, before the first step", "[host]") {
  fake_cuda::install_cublas_lt(false);
  bool began = false;
  auto const why = why_not([&](int) { began = true; });
  fake_cuda::install_cublas_lt(true);
  CHECK_THAT(why, Catch::Contains("Muon needs cuBLASLt on GPUs, and none was found; libcublasLt_that_nobody_has.so.13: "
                                  "cannot open shared object file") &&
                      Catch::Contains("LD_LIBRARY_PATH"));
  CHECK_FALSE(began);
}

TEST_CASE("an engine with Muon names a product that cuBLASLt has no algorithm for", "[host]") {
  fake_cuda::offer_algorithms(false);
  auto const why = why_not();
  fake_cuda::offer_algorithms(true);
  CHECK_THAT(why, Catch::Contains("cuBLASLt has no algorithm for a product transposed 7 x 61 x 7 in bf16"));
}

TEST_CASE("an engine with Muon names a product that cuBLASLt rejects in a step", "[host]") {
  auto const why = why_not([](int step) { fake_cuda::offer_algorithms(step != 2); });
  fake_cuda::offer_algorithms(true);
  CHECK_THAT(why, Catch::Contains("cublasLtMatmul for a product transposed 7 x 61 x 7 in bf16: "
                                  "CUBLAS_STATUS_INVALID_VALUE"));
}

TEST_CASE("engines ask for an algorithm once per shape before the first step, and steps allocate nothing", "[host]") {
  auto const* const more = GENERATE("", R"(, "ns_method": "gram")");
  begin_on({});
  auto const asked_before = fake_cuda::heuristics_asked();
  MatrixOptions options;
  options.before_step = [&, allocated = std::int64_t{0}](int step) mutable {
    CHECK(fake_cuda::heuristics_asked() - asked_before == 4 * 3 - 1);  // the products of 33 x 33 have two shapes
    auto const now = fake_cuda::calls("cudaMalloc") + fake_cuda::calls("cudaHostAlloc");
    allocated = step == 0 ? now : allocated;
    CHECK(now == allocated);
  };
  auto const config = Config::from_json(muon_file(bf16_types, 1, 2, more));
  auto const outcome =
      on_one_gpu()(1, [&](Job& job) { static_cast<void>(train_matrices<bf16, bf16>(job, config, options)); });
  CHECK(messages_of(outcome) == "");
}
#endif

}  // namespace zeroth::testing
