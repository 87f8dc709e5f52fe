// SPDX-License-Identifier: Apache-2.0
/// Products on the CPU, by every library that train_gpt can use.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>
#include <zeroth/adapters/eigen.hpp>
#include <zeroth/engine/engine.hpp>
#include <zeroth/optim/muon.hpp>

#include "cpu/choice.hpp"
#include "cpu/cpu.hpp"
#include "cpu/muon_products.hpp"
#include "cpu/onednn.hpp"
#include "cpu/rehearsal.hpp"
#include "gpt.hpp"
#include "onednn_here.hpp"
#include "random_batch.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"

namespace gpt {
namespace {

using zeroth::Dtype;
using DoubleMatrix = zeroth::Matrix<double>;
using MakeMatmul = std::function<std::unique_ptr<cpu::Matmul>()>;

struct Library {
  char const* name;
  MakeMatmul make;
};
/// The libraries that multiply `dtype` on this machine.
std::vector<Library> libraries(Dtype dtype) {
  std::vector<Library> all{{"Eigen", cpu::eigen_matmul}};
  if (testing::onednn_multiplies(dtype)) {
    all.push_back({"oneDNN", cpu::onednn_matmul});
  }
  return all;
}

template <class T>
double wide(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<double>(zeroth::to_float(value));
  }
}
template <class T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return zeroth::from_float<T>(static_cast<float>(value));
  }
}

/// The tolerated error of a product, relative to its largest element: that of sums in fp32, which are rounded once.
template <class O>
double rounding = 1e-5;
template <>
double rounding<zeroth::bf16> = 0x1p-8;
template <>
double rounding<zeroth::fp16> = 0x1p-10;
template <>
double rounding<double> = 1e-13;

/// Random numbers in rows that begin `stride` apart, `shift` elements after an aligned address; NaN elsewhere.
template <class T>
class Numbers {
 public:
  Numbers(std::int64_t rows, std::int64_t cols, std::int64_t stride, unsigned seed, std::int64_t shift = 0)
      : rows_{rows}, cols_{cols}, stride_{stride}, shift_{shift} {
    memory_.resize(1, rows * stride + shift);
    std::memset(static_cast<void*>(memory_.data()), 0xff, static_cast<std::size_t>(memory_.count()) * sizeof(T));
    std::mt19937 random{seed};
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        data()[i * stride + j] = narrow<T>(normal(random));
      }
    }
  }
  [[nodiscard]] T* data() { return memory_.data() + shift_; }
  [[nodiscard]] Operand operand(bool transposed) { return {data(), math_dtype<T>, rows_, cols_, stride_, transposed}; }
  [[nodiscard]] DoubleMatrix doubles() {
    return DoubleMatrix::NullaryExpr(rows_, cols_, [&](auto i, auto j) { return wide(data()[i * stride_ + j]); });
  }
  [[nodiscard]] std::vector<char> bytes() {
    std::vector<char> all;
    for (std::int64_t i = 0; i < rows_; ++i) {
      auto const* const row = reinterpret_cast<char const*>(data() + i * stride_);
      all.insert(all.end(), row, row + cols_ * std::int64_t{sizeof(T)});
    }
    return all;
  }

 private:
  cpu::Matrix<T> memory_;
  std::int64_t rows_, cols_, stride_, shift_;
};

struct Form {
  std::int64_t m = 13, n = 17, k = 21;
  bool a_transposed = false, b_transposed = false, biased = false;
  float beta = 0;
  bool other = false;      ///< Whether the addend is in other memory.
  std::int64_t gap = 0;    ///< Between rows.
  std::int64_t shift = 0;  ///< Elements from an aligned address.
};

/// A product and its distance from Eigen's in double, in units of the tolerated rounding error; infinite if it is not
/// finite.
struct Made {
  std::vector<char> bytes;
  double error;
};
template <class T, class O>
Made make(cpu::Matmul& multiply, Form const& f) {
  auto const numbers = [&](std::int64_t rows, std::int64_t cols, unsigned seed) {
    return Numbers<T>{rows, cols, cols + f.gap, seed, f.shift};
  };
  auto a = f.a_transposed ? numbers(f.k, f.m, 1) : numbers(f.m, f.k, 1);
  auto b = f.b_transposed ? numbers(f.n, f.k, 2) : numbers(f.k, f.n, 2);
  Numbers<O> bias{1, f.n, f.n, 3, f.shift}, out{f.m, f.n, f.n + f.gap, 4, f.shift},
      addend{f.m, f.n, f.n + f.gap, 5, f.shift};
  DoubleMatrix expected = f.a_transposed ? DoubleMatrix{a.doubles().transpose()} : a.doubles();
  expected = expected * (f.b_transposed ? DoubleMatrix{b.doubles().transpose()} : b.doubles());
  if (f.beta != 0) {
    expected += (f.other ? addend : out).doubles();
  }
  if (f.biased) {
    expected.rowwise() += bias.doubles().row(0);
  }
  Product const product{.a = a.operand(f.a_transposed),
                        .b = b.operand(f.b_transposed),
                        .out = {out.data(), math_dtype<O>, f.n + f.gap},
                        .beta = f.beta,
                        .addend = f.other ? addend.data() : nullptr,
                        .epilogue = f.biased ? Epilogue::bias : Epilogue::none,
                        .bias = f.biased ? bias.data() : nullptr};
  if (f.beta == 0) {
    for (auto& byte : std::span{reinterpret_cast<char*>(out.data()), static_cast<std::size_t>(f.n) * sizeof(O)}) {
      byte = '\xff';  // the old contents are NaN
    }
  }
  multiply(product);
  DoubleMatrix const difference = out.doubles() - expected;
  double const error = difference.cwiseAbs().maxCoeff() / (rounding<O> * std::max(1.0, expected.cwiseAbs().maxCoeff()));
  return {out.bytes(), difference.allFinite() ? error : HUGE_VAL};
}
/// Its bytes.
template <class T, class O>
std::vector<char> product_of(cpu::Matmul& multiply, Form const& form) {
  auto const [bytes, error] = make<T, O>(multiply, form);
  CHECK(error < 1);
  return bytes;
}

template <class T, class O>
void check_all_forms(cpu::Matmul& multiply) {
  for (std::int64_t const gap : {0, 3}) {
    for (bool const ta : {false, true}) {
      for (bool const tb : {false, true}) {
        for (float const beta : {0.0F, 1.0F}) {
          CAPTURE(gap, ta, tb, beta);
          product_of<T, O>(multiply, {.a_transposed = ta, .b_transposed = tb, .beta = beta, .gap = gap});
          product_of<T, O>(
              multiply, {.m = 300, .n = 5, .k = 270, .a_transposed = ta, .b_transposed = tb, .beta = beta, .gap = gap});
        }
      }
    }
    CAPTURE(gap);
    product_of<T, O>(multiply, {.biased = true, .gap = gap});
    product_of<T, O>(multiply, {.m = 300, .biased = true, .beta = 1, .other = true, .gap = gap});
    product_of<T, O>(multiply, {.m = 1, .n = 1, .k = 1, .biased = true, .beta = 1, .gap = gap});
    product_of<T, O>(multiply, {.beta = 1, .other = true, .gap = gap});
  }
}

int threads_of_this_process() {
  auto const tasks = std::filesystem::directory_iterator{"/proc/self/task"};
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

}  // namespace

TEMPLATE_TEST_CASE("products match double precision, in all their forms", "", float, zeroth::bf16, zeroth::fp16,
                   double) {
  for (auto const& library : libraries(math_dtype<TestType>)) {
    INFO(library.name);
    auto const multiply = library.make();
    check_all_forms<TestType, TestType>(*multiply);
    check_all_forms<TestType, cpu::WideOf<TestType>>(*multiply);
  }
}

TEMPLATE_TEST_CASE("a product has the same bits at any alignment of its data", "", float, zeroth::bf16, zeroth::fp16) {
  for (auto const& library : libraries(math_dtype<TestType>)) {
    INFO(library.name);
    auto const multiply = library.make();
    // As in forward, for the input's gradient and for the weight's.
    for (Form form :
         {Form{.m = 96, .n = 64, .k = 48, .biased = true}, Form{.m = 96, .n = 48, .k = 64, .b_transposed = true},
          Form{.m = 48, .n = 64, .k = 300, .a_transposed = true, .beta = 1}}) {
      auto const narrow = product_of<TestType, TestType>(*multiply, form);
      auto const wide = product_of<TestType, float>(*multiply, form);
      for (form.shift = 1; form.shift < 32; form.shift += 2) {
        CAPTURE(form.m, form.n, form.k, form.shift);
        CHECK((product_of<TestType, TestType>(*multiply, form) == narrow));
        CHECK((product_of<TestType, float>(*multiply, form) == wide));
      }
    }
  }
}

TEMPLATE_TEST_CASE("the first rows of a product are the product of the first rows", "", float, zeroth::bf16) {
  for (auto const& library : libraries(math_dtype<TestType>)) {
    INFO(library.name);
    auto const multiply = library.make();
    for (bool const transposed : {false, true}) {
      auto const all =
          product_of<TestType, TestType>(*multiply, {.m = 1024, .n = 96, .k = 200, .b_transposed = transposed});
      auto const first =
          product_of<TestType, TestType>(*multiply, {.m = 256, .n = 96, .k = 200, .b_transposed = transposed});
      CHECK((first == std::vector<char>{all.begin(), all.begin() + std::ssize(first)}));
    }
  }
}

// The test runs with OMP_NUM_THREADS=4.
TEMPLATE_TEST_CASE("products run on the calling thread, whatever the environment says", "", float, zeroth::bf16) {
  REQUIRE(std::getenv("OMP_NUM_THREADS") == std::string{"4"});
  std::thread{[] {}}.join();  // sanitizers start their own thread with the first one
  auto const before = threads_of_this_process();
  for (auto const& library : libraries(math_dtype<TestType>)) {
    INFO(library.name);
    Form const form{.m = 384, .n = 384, .k = 1024, .a_transposed = true};  // more threads would divide its sums
    auto const multiply = library.make();
    auto const here = product_of<TestType, float>(*multiply, form);
    std::vector<char> there;
    std::thread{[&] { there = make<TestType, float>(*library.make(), form).bytes; }}.join();
    CHECK((here == there));
    CHECK(threads_of_this_process() == before);
  }
}

TEMPLATE_TEST_CASE("products allocate their memory when they are prepared", "", float, zeroth::bf16) {
  for (auto const& library : libraries(math_dtype<TestType>)) {
    INFO(library.name);
    auto const multiply = library.make();
    Numbers<TestType> a{70, 90, 90, 1}, b{90, 110, 110, 2}, out{70, 110, 110, 3};
    Product const product{.a = a.operand(false), .b = b.operand(false), .out = {out.data(), math_dtype<TestType>, 110}};
    multiply->prepare(kind_of(product));
    auto const prepared = multiply->scratch_bytes();
    (*multiply)(product);
    CHECK(multiply->scratch_bytes() == prepared);
  }
}

TEMPLATE_TEST_CASE("after a rehearsal the first step allocates nothing", "", float, zeroth::bf16) {
  float const dropout = GENERATE(0.0F, 0.1F);
  Shape const shape{.layers = 2, .heads = 2, .channels = 48, .context = 100};
  auto const config = zeroth::Config::from_json(
      std::is_same_v<TestType, float>
          ? R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2})"
          : R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": true}})");
  for (auto const& library : libraries(math_dtype<TestType>)) {
    std::vector<std::string> tables;
    std::vector<std::int64_t> scratch;
    auto const outcome = zeroth::testing::run_job(1, [&](zeroth::Job& job) {
      zeroth::Model model{1};
      Gpt<cpu::Cpu<TestType>> const gpt{model, shape, Recompute::off, dropout};
      zeroth::Engine<TestType> engine{job, model, config};
      auto const multiply = library.make();
      cpu::Cpu<TestType> cpu{*multiply};
      auto workspace = gpt.workspace();
      cpu::rehearse<TestType>(gpt, cpu, workspace, 2 * shape.context);
      auto const note = [&] {
        tables.push_back(multiply->table());
        scratch.push_back(multiply->scratch_bytes());
      };
      note();
      auto const batch = testing::random_batch(2 * shape.context, 256, 3);
      for (auto micro : engine.micro_steps()) {
        PassOn pass{cpu, micro};
        float const loss = gpt.forward(pass, batch, workspace);
        gpt.backward(pass, batch, workspace, micro.report_loss(loss));
      }
      engine.step();
      note();
    });
    INFO(library.name);
    REQUIRE(zeroth::testing::messages_of(outcome) == "");
    CHECK(tables.at(0) == tables.at(1));
    CHECK(scratch.at(0) == scratch.at(1));
    CHECK((scratch.at(0) > 0 || std::is_same_v<TestType, float>));
  }
}

TEST_CASE("Muon's matrices by these products are those by the library's own, but for roundings") {
  std::int64_t const rows = 60, columns = 100;
  std::vector<zeroth::bf16> matrix;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    matrix.push_back(zeroth::from_float<zeroth::bf16>(std::sin(static_cast<float>(i * i))));
  }
  auto const orthogonal = [&](zeroth::optim::Muon const& rule) {
    auto const bytes = zeroth::optim::orthogonal_workspace_bytes(rule, rows, columns);
    cpu::Matrix<char> workspace;
    workspace.resize(1, bytes);
    zeroth::optim::StepScalars scalars;
    scalars.skip = false;
    auto result = matrix;
    zeroth::optim::orthogonalise(
        {result.data(), rows, columns, reinterpret_cast<std::byte*>(workspace.data()), &rule, &scalars});
    return result;
  };
  auto const own = orthogonal({});
  for (auto const& library : libraries(zeroth::Dtype::bf16)) {
    INFO(library.name);
    zeroth::optim::Muon rule;
    rule.multiply = cpu::muon_products(library.make());
    auto const theirs = orthogonal(rule);
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      auto const a = static_cast<double>(zeroth::to_float(own[i])),
                 b = static_cast<double>(zeroth::to_float(theirs[i]));
      difference += (a - b) * (a - b);
      norm += a * a;
    }
    CHECK(std::sqrt(difference / norm) < 0.01);
  }
}

TEST_CASE("oneDNN's products in bf16 are named by their implementation") {
  if (!testing::onednn_multiplies(Dtype::bf16)) {
    WARN("oneDNN is not there, or has no bf16 for this processor: nothing is tested");
    return;
  }
  auto const multiply = cpu::onednn_matmul();
  product_of<zeroth::bf16, zeroth::bf16>(*multiply, {.m = 64, .n = 32, .k = 96, .biased = true});
  CHECK_THAT(multiply->table(),
             Catch::Contains("a product 64 x 32 x 96, bf16 to bf16, strides 96, 32 and 32, adding nothing, bias: "));
  CHECK(multiply->slow_products() == "");
  CHECK(std::ranges::count(multiply->table(), '\n') == 1);
}

TEST_CASE("slow fallbacks of oneDNN are distinguished from its fast implementations") {
  CHECK_FALSE(cpu::is_slow("brg:avx512_core_amx_bf16", "avx512_core_amx"));
  CHECK_FALSE(cpu::is_slow("brg:avx512_core_bf16", "avx512_core_bf16"));
  CHECK_FALSE(cpu::is_slow("gemm:jit", "avx512_core_bf16"));
  CHECK(cpu::is_slow("gemm:jit", "avx512_core_amx"));
  CHECK(cpu::is_slow("ref:any", "avx512_core_bf16"));
  CHECK(cpu::is_slow("ref:any", "avx512_core_amx"));
}

TEST_CASE("products that do not fit are refused on the CPU") {
  auto const multiply = cpu::eigen_matmul();
  Numbers<float> a{8, 8, 8, 1};
  auto product = Product{.a = a.operand(false), .b = a.operand(false), .out = {a.data(), Dtype::fp32, 8}};
  product.a.cols = 7;
  CHECK_THROWS_WITH((*multiply)(product), Catch::Contains("matmul: 8 x 7 fp32 times 8 x 8 fp32"));
  product.a.cols = 8;
  product.beta = 0.5F;
  CHECK_THROWS_WITH((*multiply)(product), Catch::Contains("beta is 0 or 1"));
  product.beta = 0;
  product.epilogue = Epilogue::gelu_slope;
  CHECK_THROWS_WITH((*multiply)(product), Catch::Contains("GELU is a pass of its own"));
}

TEST_CASE("the math library is chosen by measured speed") {
  using cpu::best_library;
  auto const chosen = [](char const* isa, bool amd, Dtype dtype) {
    return best_library({.amd = amd, .onednn_isa = isa}, dtype);
  };
  for (bool const amd : {false, true}) {
    CHECK(chosen("avx512_core_amx", amd, Dtype::bf16) == MathLibrary::onednn);
    CHECK(chosen("avx512_core_amx", amd, Dtype::fp32) == MathLibrary::onednn);
    CHECK(chosen("avx512_core", amd, Dtype::fp32) == MathLibrary::onednn);
    CHECK(chosen("avx512_core", amd, Dtype::bf16) == MathLibrary::eigen);
    CHECK(chosen("avx2", amd, Dtype::fp32) == MathLibrary::eigen);
    CHECK(chosen("avx2", amd, Dtype::bf16) == MathLibrary::eigen);
    CHECK(chosen("avx512_core_amx", amd, Dtype::fp16) == MathLibrary::eigen);
    CHECK(best_library({.amd = amd, .onednn_isa = std::nullopt}, Dtype::bf16) == MathLibrary::eigen);
  }
  CHECK(chosen("avx512_core_bf16", true, Dtype::bf16) == MathLibrary::onednn);
  CHECK(chosen("avx512_core_bf16", false, Dtype::bf16) == MathLibrary::eigen);
}

TEST_CASE("a math library that cannot do the products is rejected, and Eigen always can") {
  CHECK_THROWS_WITH(cpu::choose(MathLibrary::onednn, Dtype::fp16),
                    Catch::Contains("--math onednn: ") && Catch::Contains("allowed"));
  CHECK(cpu::choose(MathLibrary::eigen, Dtype::fp16).library == MathLibrary::eigen);
  CHECK_THAT(cpu::choose(MathLibrary::eigen, Dtype::bf16).name, Catch::Matches("Eigen 3.*, bf16 widened to fp32"));
}

}  // namespace gpt
