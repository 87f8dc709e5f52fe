// SPDX-License-Identifier: Apache-2.0
/// The GPT on a GPU or an emulated one, against the CPU's.
#include <memory>
#include <string>
#include <vector>

#include "cuda/gpus.hpp"
#include "examples/gelu.hpp"
#include "examples/gpu/device_pass.hpp"
#include "gpt.hpp"
#include "gpu/batch_upload.hpp"
#include "gpu/gpu.hpp"
#include "support/sanitized.hpp"
#ifndef ZEROTH_ON_GPU
#include "support/fake_cuda/cublas_lt.hpp"
#endif

namespace gpt {
namespace {

using namespace gpt::testing;
using zeroth::Dtype;

struct Form {
  Epilogue epilogue = Epilogue::none;
  bool a_transposed = false, b_transposed = false;
  float beta = 0;
  bool other = false;    ///< Whether the addend is in other memory.
  bool aligned = false;  ///< Whether rows are aligned.
  std::int64_t columns = 16;
};

/// A product in one of its forms, against Eigen's in double.
template <class T>
void check_product(Form const& form) {
  auto const [epilogue, ta, tb, beta, other, aligned, n] = form;
  std::int64_t const m = 13, k = 21;
  Stream const stream;
  gpu::Matmul multiply{stream.raw(), {}};
  auto const a = random_values<T>(m * k, 1);
  auto const b = random_values<T>(k * n, 2);
  auto const bias = random_values<T>(n, 3);
  auto const inner = random_values<T>(m * n, 4);
  auto const old = beta == 0 ? garbage<T>(m * n) : random_values<T>(m * n, 5);
  auto const a_columns = ta ? m : k;
  auto const b_columns = tb ? k : n;
  auto const place = [&](std::vector<T> const& values, std::int64_t columns) {
    return form.aligned ? on_device_aligned(stream, values, columns) : on_device(stream, values, columns);
  };
  auto const their_a = place(a, a_columns);
  auto const their_b = place(b, b_columns);
  auto const their_bias = on_device(stream, bias, n);
  auto their_inner = on_device(stream, inner, n);
  auto out = place(other ? garbage<T>(m * n) : old, n);
  auto const addend = place(old, n);

  Product product{.a = operand(their_a),
                  .b = operand(their_b),
                  .out = result(out),
                  .beta = beta,
                  .addend = other ? addend.data() : nullptr,
                  .epilogue = epilogue};
  product.a.transposed = ta;
  product.b.transposed = tb;
  DoubleMatrix const left = ta ? DoubleMatrix{matrix(a, a_columns).transpose()} : matrix(a, a_columns);
  DoubleMatrix const right = tb ? DoubleMatrix{matrix(b, b_columns).transpose()} : matrix(b, b_columns);
  DoubleMatrix expected = left * right;
  if (beta != 0) {
    expected += static_cast<double>(beta) * matrix(old, n);
  }
  if (epilogue == Epilogue::bias || epilogue == Epilogue::bias_gelu) {
    product.bias = their_bias.data();
    expected.rowwise() += matrix(bias, n).row(0);
  }
  if (epilogue == Epilogue::bias_gelu) {
    product.inner = their_inner.data();
    DoubleMatrix const before = expected;
    expected = before.unaryExpr(&gelu_of);
    multiply(product);
    CHECK(error_of(values_of(stream, their_inner), before) < tolerance<T>);
  }
  if (epilogue == Epilogue::gelu_slope) {
    product.inner = their_inner.data();
    expected.array() *= matrix(inner, n).unaryExpr(&gelu_slope_of).array();
  }
  multiply(product);
  // If GELU is a separate kernel, its input has been rounded.
  CHECK(error_of(values_of(stream, out), expected) < 2 * tolerance<T>);
}

/// Also fills the gaps between rows.
template <class T>
void fill_with_nan(Stream const& stream, gpu::Matrix<T>& matrix, std::int64_t rows, std::int64_t columns) {
  matrix.resize_aligned(rows, columns);
  stream.upload(matrix.data(), garbage<T>(rows * matrix.stride()));
}

template <class T, class G>
void check_model(Shape const& shape, Recompute recompute, std::shared_ptr<KeyBlocks const> const& key_blocks = {}) {
  auto const batch =
      random_batch(2 * shape.context, static_cast<int>(std::min<std::int64_t>(shape.vocabulary, 256)), 5);
  double const seed = 4;
  zeroth::Model model{3};
  GptParams params{model, shape};
  params.key_blocks = key_blocks;
  ReferencePass<double> reference{model};

  Stream const stream;
  gpu::Gpu<T> machine{stream.raw(), {}};
  DevicePass<T, G> pass{stream, machine, reference};
  gpu::BatchUpload upload{2 * shape.context, shape.vocabulary, 1};
  Gpt<gpu::Gpu<T>> const gpt{params, recompute};
  auto workspace = gpt.workspace();
  fill_with_nan(stream, workspace.head.logits, 2 * shape.context, shape.vocabulary);
  fill_with_nan(stream, workspace.head.dlogits, 2 * shape.context, shape.vocabulary);
  auto const uploaded = upload.enqueue(batch, stream.raw());
  auto const loss = gpt.forward(pass, uploaded, workspace);
  gpt.backward(pass, uploaded, workspace, {static_cast<float>(seed)});

  Gpt<Doubles> const expected{params, Recompute::off};
  auto expected_workspace = expected.workspace();
  double const expected_loss = expected.forward(reference, batch, expected_workspace);
  expected.backward(reference, batch, expected_workspace, seed);

  // In 16 bits, activations are rounded by 2^-9 or 2^-11 of themselves at each of some ten roundings per block, which
  // add up like independent errors. The loss is a mean over many.
  bool const narrow = sizeof(T) == 2;
  CHECK(static_cast<double>(stream.download(loss.mean, 1)[0]) ==
        Approx(expected_loss).epsilon(narrow ? 10 * tolerance<T> : 1e-6));
  for (std::size_t param = 0; param < reference.gradients.size(); ++param) {
    INFO(reference.name(param));
    auto const count = std::ssize(reference.gradients[param]);
    DoubleMatrix const exact = matrix(reference.gradients[param], count);
    DoubleMatrix const difference = matrix(pass.gradient(param), count) - exact;
    CHECK(difference.allFinite());
    CHECK(difference.norm() < (narrow ? 20 * tolerance<T> : 1e-5) * exact.norm());
  }
  stream.wait();
}

Shape const small{.layers = 2, .heads = 2, .channels = 48, .context = 40, .vocabulary = 67};

}  // namespace

TEMPLATE_TEST_CASE("products are Eigen's, in all their forms", "", float, zeroth::bf16, zeroth::fp16) {
  zeroth::testing::begin_on({});
  for (bool const aligned : {false, true}) {
    for (std::int64_t const columns : {16, 17}) {
      for (bool const ta : {false, true}) {
        for (bool const tb : {false, true}) {
          for (float const beta : {0.0F, 1.0F}) {
            static zeroth::testing::Sample sample{7, 3};
            if (sample.leaves_out()) {
              continue;
            }
            check_product<TestType>(
                {.a_transposed = ta, .b_transposed = tb, .beta = beta, .aligned = aligned, .columns = columns});
          }
        }
      }
      check_product<TestType>({.epilogue = Epilogue::bias, .aligned = aligned, .columns = columns});
      check_product<TestType>(
          {.epilogue = Epilogue::bias, .beta = 1, .other = true, .aligned = aligned, .columns = columns});
    }
  }
  for (std::int64_t const columns : {16, 17}) {  // GELU's epilogues require multiples of 8
    check_product<TestType>({.epilogue = Epilogue::bias_gelu, .columns = columns});
    check_product<TestType>({.epilogue = Epilogue::gelu_slope, .b_transposed = true, .columns = columns});
  }
  CHECK(zeroth::testing::left_on_gpus() == "");
}

TEST_CASE("products that do not fit are refused") {
  zeroth::testing::begin_on({});
  Stream const stream;
  gpu::Matmul multiply{stream.raw(), {}};
  auto memory = on_device(stream, random_values<float>(64, 1), 8);
  auto const eight_by_eight = operand(memory);
  auto const product = [&](Operand const& a, Result const& out) {
    return Product{.a = a, .b = eight_by_eight, .out = out};
  };
  CHECK_THROWS_WITH(multiply(product({memory.data(), Dtype::fp32, 2, 3, 3}, result(memory))),
                    Catch::Contains("matmul: 2 x 3 fp32 times 8 x 8 fp32"));
  CHECK_THROWS_WITH(multiply(product({memory.data(), Dtype::fp32, 8, 8, 7}, result(memory))),
                    Catch::Contains("strides 7, 8 and 8 of matrices with 8, 8 and 8 columns"));
  CHECK_THROWS_WITH(multiply(product(eight_by_eight, {memory.data() + 4, Dtype::fp32, 8})),
                    Catch::Contains("matmul: out at 0x") && Catch::Contains("multiples of 256 bytes"));
  auto apart = product(eight_by_eight, {memory.data(), Dtype::fp32, 9});
  apart.epilogue = Epilogue::gelu_slope;
  apart.inner = memory.data();
  CHECK_THROWS_WITH(multiply(apart), Catch::Contains("8 columns with stride 9: GELU needs rows without gaps"));
}

#ifndef ZEROTH_ON_GPU
TEST_CASE("products that cuBLASLt refuses, or has no algorithm for, are named") {
  zeroth::testing::begin_on({});
  namespace fake = zeroth::testing::fake_cuda;
  Stream const stream;
  gpu::Matmul multiply{stream.raw(), {}};
  auto const values = on_device(stream, random_values<float>(64, 1), 8);
  auto out = on_device(stream, random_values<zeroth::bf16>(64, 1), 8);
  CHECK_THROWS_WITH(
      multiply({.a = transposed(operand(values)), .b = operand(values), .out = result(out)}),
      Catch::Contains("CUBLAS_STATUS_INVALID_VALUE") &&
          Catch::Contains("a product 8 x 8 x 8, fp32 to bf16, strides 8 (transposed), 8 and 8, adding nothing, no "
                          "epilogue"));
  fake::offer_algorithms(false);
  auto again = on_device(stream, random_values<float>(64, 1), 8);
  CHECK_THROWS_WITH(
      multiply({.a = operand(values), .b = operand(values), .out = result(again), .beta = 1}),
      Catch::Contains("cuBLASLt has no algorithm for a product 8 x 8 x 8, fp32 to fp32, strides 8, 8 and 8, adding to "
                      "what is there, no epilogue (CUBLASLT_LOG_LEVEL=5 makes it say why)"));
  fake::offer_algorithms(true);
}

TEST_CASE("the library's handle belongs to the GPU that was current, and so does all that it works on") {
  zeroth::testing::begin_on({.count = 2});
  {
    Stream const stream;
    gpu::Matmul multiply{stream.raw(), {}};
    auto const values = on_device(stream, random_values<float>(64, 1), 8);
    auto out = on_device(stream, random_values<float>(64, 1), 8);
    auto const product = Product{.a = operand(values), .b = operand(values), .out = result(out)};
    multiply(product);
    auto const is_refused = Catch::Contains("CUBLAS_STATUS_INVALID_VALUE");
    auto longer = product;
    longer.a.rows = 9;
    CHECK_THROWS_WITH(multiply(longer), is_refused);
    auto over = product;
    over.out = {const_cast<float*>(values.data()), Dtype::fp32, 8};  // NOLINT: to be refused
    CHECK_THROWS_WITH(multiply(over), is_refused);
    stream.wait();

    gpu::expect(cudaSetDevice(1), "cudaSetDevice");
    CHECK_THROWS_WITH(multiply(product), is_refused);
    gpu::Matrix<float> elsewhere;
    elsewhere.resize(8, 8);
    gpu::expect(cudaSetDevice(0), "cudaSetDevice");
    auto of_another = product;
    of_another.b = operand(elsewhere);
    CHECK_THROWS_WITH(multiply(of_another), is_refused);
  }
  CHECK(zeroth::testing::left_on_gpus() == "");
}

TEMPLATE_TEST_CASE("without GELU in the library's epilogues it is a kernel, as always in fp32", "", float,
                   zeroth::bf16) {
  zeroth::testing::begin_on({});
  namespace fake = zeroth::testing::fake_cuda;
  Form const forward{.epilogue = Epilogue::bias_gelu};
  Form const backward{.epilogue = Epilogue::gelu_slope, .b_transposed = true};
  fake::offer_gelu(false);
  auto const before = fake::gelus_fused();
  check_product<TestType>(forward);
  check_product<TestType>(backward);
  CHECK(fake::gelus_fused() == before);
  fake::offer_gelu(true);
  check_product<TestType>(forward);
  check_product<TestType>(backward);
  CHECK((fake::gelus_fused() > before) == (sizeof(TestType) == 2));
}

TEST_CASE("a vocabulary may be odd, and all rows still begin at multiples of 16 bytes") {
  zeroth::testing::begin_on({});
  namespace fake = zeroth::testing::fake_cuda;
  auto const before = fake::products_in_slow_rows();
  auto const vocabulary =
      GENERATE(from_range(zeroth::testing::sanitized ? std::vector{67, 257} : std::vector{67, 68, 69, 257}));
  CAPTURE(vocabulary);
  Shape const shape{.layers = 1, .heads = 2, .channels = 48, .context = 40, .vocabulary = vocabulary};
  check_model<float, float>(shape, Recompute::off);
  check_model<zeroth::bf16, zeroth::bf16>(shape, Recompute::off);
  check_model<zeroth::fp16, float>(shape, Recompute::off);
  CHECK(fake::products_in_slow_rows() == before);
}

TEST_CASE("an algorithm is chosen once for each kind of product") {
  zeroth::testing::begin_on({});
  Stream const stream;
  gpu::Matmul multiply{stream.raw(), {}};
  auto const values = on_device(stream, random_values<float>(64, 1), 8);
  auto out = on_device(stream, random_values<float>(64, 1), 8);
  Product product{.a = operand(values), .b = operand(values), .out = result(out)};
  auto const before = zeroth::testing::fake_cuda::heuristics_asked();
  multiply(product);
  multiply(product);
  CHECK(zeroth::testing::fake_cuda::heuristics_asked() == before + 1);
  product.b.transposed = true;
  multiply(product);
  CHECK(zeroth::testing::fake_cuda::heuristics_asked() == before + 2);
  stream.wait();
}
#endif

TEST_CASE("the model on a GPU has the loss and the gradients of the CPU's in double") {
  zeroth::testing::begin_on({});
  auto const recompute = GENERATE(Recompute::off, Recompute::on);
  check_model<float, float>(small, recompute);
  CHECK(zeroth::testing::left_on_gpus() == "");
}

TEST_CASE("odd shapes are no different") {
  zeroth::testing::begin_on({});
  check_model<float, float>({.layers = 1, .heads = 3, .channels = 15, .context = 7, .vocabulary = 11}, Recompute::off);
  check_model<float, float>({.layers = 1, .heads = 1, .channels = 72, .context = 33, .vocabulary = 300},
                            Recompute::off);
}

TEMPLATE_TEST_CASE("the model in 16 bits is near the CPU's in double", "", zeroth::bf16, zeroth::fp16) {
  zeroth::testing::begin_on({});
  check_model<TestType, TestType>(small, Recompute::off);
  check_model<TestType, float>(small, Recompute::on);
}

TEMPLATE_TEST_CASE("the model with a layout of attention is near the CPU's in double", "", float, zeroth::bf16,
                   zeroth::fp16) {
  zeroth::testing::begin_on({});
  Shape const shape{.layers = 2, .heads = 3, .channels = 48, .context = 96, .vocabulary = 67};
  zeroth::BlockLayout const layout{{.mode = zeroth::SparseMode::bigbird,
                                    .block = 16,
                                    .attention = zeroth::AttentionDirection::unidirectional,
                                    .different_layout_per_head = true,
                                    .num_random_blocks = 1,
                                    .num_sliding_window_blocks = 1},
                                   shape.heads,
                                   shape.context};
  auto const key_blocks = std::make_shared<KeyBlocks const>(layout, 0, shape.heads);
  check_model<TestType, TestType>(shape, Recompute::off, key_blocks);
  check_model<TestType, float>(shape, Recompute::on, key_blocks);
  CHECK(zeroth::testing::left_on_gpus() == "");
}

TEST_CASE("a Gpu has one layout of attention") {
  zeroth::testing::begin_on({});
  Stream const stream;
  gpu::Gpu<float> machine{stream.raw(), {}};
  zeroth::SparseAttention parameters{.mode = zeroth::SparseMode::local_sliding_window};
  parameters.attention = zeroth::AttentionDirection::unidirectional;
  KeyBlocks const first{{parameters, 1, 48}, 0, 1}, second{{parameters, 1, 48}, 0, 1};
  auto const qkv = on_device(stream, random_values<float>(48 * 24, 1), 24);
  gpu::Matrix<float> log_sums, y;
  log_sums.resize(48, 1);
  y.resize(48, 8);
  machine.attend({.count = 1, .width = 8, .context = 48, .key_blocks = &first}, qkv, log_sums, y);
  CHECK_THROWS_WITH(machine.attend({.count = 1, .width = 8, .context = 48, .key_blocks = &second}, qkv, log_sums, y),
                    Catch::Contains("a second layout of attention on one Gpu"));
  stream.wait();
}

TEST_CASE("heads that are too wide for the kernels are refused") {
  Shape const shape{.layers = 1, .heads = 1, .channels = 130, .context = 8};
  zeroth::Model model{3};
  GptParams const params{model, shape};
  CHECK_THROWS_WITH(
      (Gpt<gpu::Gpu<float>>{params, Recompute::off}),
      Catch::Contains("a head has 130 channels (--channels 130, --heads 1)") && Catch::Contains("up to 128"));
}

}  // namespace gpt
