// SPDX-License-Identifier: Apache-2.0
/// Kernels of train_gpt against the CPU's layers in double: embedding, LayerNorm, GELU, sums over rows.
///
/// Tolerances: a result in fp32 comes from sums of at most some hundred terms of order one, so 1e-5 of the largest
/// value leaves a margin of two decimal digits for rounding. Values stored in 16 bits are rounded once more, by at most
/// 2^-9 (bf16) or 2^-11 (fp16) of themselves.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <vector>

#include "cpu/kernels/dropout.hpp"
#include "embedding.hpp"
#include "examples/gelu.hpp"
#include "examples/gpu/numbers.hpp"
#include "examples/reference_pass.hpp"
#include "gpu/bodies.hpp"
#include "layer_norm.hpp"
#include "token_order.hpp"

namespace gpt::gpu {
namespace {

using namespace gpt::testing;
using zeroth::testing::same_bits;

template <class T>
struct NormInput {
  std::vector<T> x, dy, dx, weight, bias;
};
template <class T>
struct NormOutput {
  std::vector<T> y, again, dx;
  std::vector<float> mean, rstd, dweight, dbias;
};

/// The kernels' results for arrays that begin `shift` elements after an aligned address.
template <class T>
NormOutput<T> layer_norm(NormInput<T> const& in, std::int64_t columns, std::int64_t shift) {
  auto const rows = std::ssize(in.x) / columns;
  OnMachine<T> const x{in.x, shift}, dy{in.dy, shift}, dx{in.dx, shift}, weight{in.weight, shift}, bias{in.bias, shift};
  OnMachine<T> const y{garbage<T>(rows * columns), shift}, again{garbage<T>(rows * columns), shift};
  OnMachine<float> const mean{garbage<float>(rows)}, rstd{garbage<float>(rows)};
  run(LayerNormForward<T>{{x.data(), weight.data(), bias.data(), rows, columns, y.data()}, mean.data(), rstd.data()});
  run(LayerNormAgain<T>{{x.data(), weight.data(), bias.data(), rows, columns, again.data()}, mean.data(), rstd.data()});

  auto const chunks = LayerNormBackward<T>::chunks_of(rows);
  OnMachine<float> const sums{garbage<float>(chunks * 2 * columns)};
  OnMachine<float> const dweight{garbage<float>(columns)}, dbias{garbage<float>(columns)};
  run(LayerNormBackward<T>{x.data(), dy.data(), weight.data(), mean.data(), rstd.data(), rows, columns, dx.data(),
                           sums.data()});
  run(FoldChunks<float>{sums.data(), 2 * columns, chunks, columns, dweight.data(), 0});
  run(FoldChunks<float>{sums.data() + columns, 2 * columns, chunks, columns, dbias.data(), 0});
  return {y.values(), again.values(), dx.values(), mean.values(), rstd.values(), dweight.values(), dbias.values()};
}

template <class T>
bool same(NormOutput<T> const& a, NormOutput<T> const& b) {
  return same_bits(a.y, b.y) && same_bits(a.again, b.again) && same_bits(a.dx, b.dx) && same_bits(a.mean, b.mean) &&
         same_bits(a.rstd, b.rstd) && same_bits(a.dweight, b.dweight) && same_bits(a.dbias, b.dbias);
}

template <class T>
void check_layer_norm(std::int64_t rows, std::int64_t columns) {
  INFO(rows << " rows of " << columns);
  OneUnit reference;
  gpt::LayerNorm<Doubles> const norm{{reference.model, reference.unit, "norm", columns}};
  ReferencePass<double> pass{reference.model};
  NormInput<T> const in{random_values<T>(rows * columns, 1), random_values<T>(rows * columns, 2),
                        random_values<T>(rows * columns, 3), rounded<T>(pass.values[0]), rounded<T>(pass.values[1])};
  auto const p = pass.backward(reference.unit);
  gpt::LayerNorm<Doubles>::Tape tape;
  auto const x = on_host(matrix(in.x, columns));
  auto y = host_matrix<double>(rows, columns);
  norm.forward(p, x, tape, y);
  auto dx = on_host(matrix(in.dx, columns));
  norm.backward(p, x, tape, on_host(matrix(in.dy, columns)), dx);

  auto const out = layer_norm(in, columns, 0);
  CHECK(error_of(out.y, eigen(y)) < tolerance<T>);
  CHECK(same_bits(out.again, out.y));
  CHECK(error_of(out.mean, eigen(tape.mean)) < tolerance<float>);
  CHECK(error_of(out.rstd, eigen(tape.rstd)) < tolerance<float>);
  CHECK(error_of(out.dx, eigen(dx)) < tolerance<T>);
  CHECK(error_of(out.dweight, matrix(pass.gradients[0], columns)) < tolerance<float>);
  CHECK(error_of(out.dbias, matrix(pass.gradients[1], columns)) < tolerance<float>);
  CHECK(same(out, layer_norm(in, columns, 3)));
}

/// Sums of columns, added to `old` if beta is one.
template <class T, class G>
std::vector<G> sums_of(std::vector<T> const& values, std::int64_t columns, std::int64_t shift,
                       std::vector<G> const& old, float beta) {
  auto const rows = std::ssize(values) / columns;
  auto const chunks = ChunkSums<T>::chunks_of(rows);
  OnMachine<T> const theirs{values, shift};
  OnMachine<G> const gradient{old, shift};
  OnMachine<float> const sums{garbage<float>(chunks * columns)};
  run(ChunkSums<T>{theirs.data(), rows, columns, sums.data()});
  run(FoldChunks<G>{sums.data(), columns, chunks, columns, gradient.data(), beta});
  return gradient.values();
}

/// Checks that results do not depend on the number of blocks, nor on the order in which blocks and threads run.
template <class Result>
void check_same_each_way(Result const& result) {
  zeroth::testing::machine().choose(0);
  auto const first = result();
  for (int way = 0; way < zeroth::testing::machine().ways(); ++way) {
    zeroth::testing::machine().choose(way);
    CHECK(same_bits(result(), first));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("LayerNorm is the CPU's, forward and backward", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  check_layer_norm<TestType>(1, 1);
  check_layer_norm<TestType>(5, 7);
  check_layer_norm<TestType>(6, 8);
  check_layer_norm<TestType>(7, 24);
  check_layer_norm<TestType>(67, 33);  // more rows than two chunks have, and an odd one
  check_layer_norm<TestType>(64, 40);
  check_layer_norm<TestType>(1, 1600);
  check_layer_norm<TestType>(35, 1601);
  check_layer_norm<TestType>(3, kept_columns);
  check_layer_norm<TestType>(34, kept_columns + 8);  // more than a block keeps
  check_layer_norm<TestType>(2, kept_columns + 3);
}

TEMPLATE_TEST_CASE("sums over rows are rounded once, into what is there", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  auto const [rows, columns] = GENERATE(table<std::int64_t, std::int64_t>(
      {{1, 1}, {515, 37}, {515, 40}, {65, 264}, {8400, 8}}));  // the last has more chunks than a thread adds at a time
  auto const values = random_values<TestType>(rows * columns, 1);
  auto const old = random_values<TestType>(columns, 2);
  DoubleMatrix const expected = matrix(values, columns).colwise().sum();
  auto const fresh = sums_of(values, columns, 0, garbage<TestType>(columns), 0);
  auto const added = sums_of(values, columns, 0, old, 1);
  CHECK(error_of(fresh, expected) < tolerance<TestType>);
  CHECK(error_of(added, expected + matrix(old, columns)) < tolerance<TestType>);
  CHECK(same_bits(sums_of(values, columns, 3, garbage<TestType>(columns), 0), fresh));
  CHECK(same_bits(sums_of(values, columns, 3, old, 1), added));
}

TEST_CASE("sums do not depend on the grid") {
  std::int64_t const rows = 300, columns = 520;
  auto const values = random_values<zeroth::bf16>(rows * columns, 1);
  check_same_each_way([&] { return sums_of(values, columns, 0, std::vector<float>(520), 0); });
  NormInput<zeroth::bf16> const in{values, random_values<zeroth::bf16>(rows * columns, 2), values,
                                   random_values<zeroth::bf16>(columns, 3), random_values<zeroth::bf16>(columns, 4)};
  check_same_each_way([&] { return layer_norm(in, columns, 0).dweight; });
  check_same_each_way([&] { return layer_norm(in, columns, 0).dx; });
}

/// The tolerance of element-wise functions, whose errors do not add up: rounding to T, and a few ulp of fp32.
template <class T>
constexpr double tolerance_of_one = std::is_same_v<T, float> ? 1e-6 : tolerance<T>;

TEMPLATE_TEST_CASE("GELU and its slope are the CPU's", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  std::int64_t const count = 5003;
  auto const x = random_values<TestType>(count, 1);
  auto const d = random_values<TestType>(count, 2);
  DoubleMatrix const y = matrix(x, count).unaryExpr(&gelu_of), slope = matrix(x, count).unaryExpr(&gelu_slope_of);
  for (std::int64_t const shift : {0, 3}) {
    OnMachine<TestType> const theirs{x, shift}, their_y{garbage<TestType>(count), shift}, their_d{d, shift};
    run(Gelu<TestType>{theirs.data(), their_y.data(), count, false});
    run(Gelu<TestType>{theirs.data(), their_d.data(), count, true});
    CHECK(error_of(their_y.values(), y) < tolerance_of_one<TestType>);
    CHECK(error_of(their_d.values(), matrix(d, count).cwiseProduct(slope)) < tolerance_of_one<TestType>);
  }
}

TEMPLATE_TEST_CASE("GELU is its input or nothing far from zero", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  std::vector<TestType> x, ones;
  for (float const value : {0.0F, 4.5F, -4.5F, 7.0F, -7.0F, 11.0F, -11.0F, 30.0F, -30.0F, 60000.0F, -60000.0F}) {
    x.push_back(zeroth::from_float<TestType>(value));
    ones.push_back(zeroth::from_float<TestType>(1));
  }
  auto const count = std::ssize(x);
  DoubleMatrix const y = matrix(x, count).unaryExpr(&gelu_of), slope = matrix(x, count).unaryExpr(&gelu_slope_of);
  OnMachine<TestType> const theirs{x}, their_y{garbage<TestType>(count)}, their_slope{ones};
  run(Gelu<TestType>{theirs.data(), their_y.data(), count, false});
  run(Gelu<TestType>{theirs.data(), their_slope.data(), count, true});
  auto const values = matrix(their_y.values(), count);
  auto const slopes = matrix(their_slope.values(), count);
  for (std::int64_t i = 0; i < count; ++i) {
    INFO("at " << wide(x[static_cast<std::size_t>(i)]));
    CHECK(std::abs(values(0, i) - y(0, i)) <= tolerance<TestType> * std::max(1.0, std::abs(y(0, i))));
    CHECK(std::abs(slopes(0, i) - slope(0, i)) <= tolerance<TestType>);
  }
}

/// Checks parameters in T and gradients in G.
template <class T, class G = T>
void check_embeddings(std::int64_t channels, int occurring, std::int64_t shift) {
  INFO(channels << " channels, " << occurring << " tokens, shift " << shift);
  std::int64_t const vocabulary = 41, context = 9, rows = 4 * context;
  OneUnit reference;
  gpt::Shape const shape{.channels = channels, .context = context, .vocabulary = vocabulary};
  gpt::Embedding<Doubles> const embedding{gpt::EmbeddingParams{reference.model, shape}, shape, 0};
  ReferencePass<double> pass{reference.model};
  auto const tokens = rounded<T>(pass.values[0]);
  auto const positions = rounded<T>(pass.values[1]);
  auto batch = random_batch(rows, occurring, 1);  // tokens that do not occur have a gradient of zero
  auto const p = pass.backward(embedding.unit());
  cpu::Matrix<double> x, all;
  embedding.forward(p, batch, x, all);
  auto const dx = random_values<T>(rows * channels, 2);
  auto host_dx = on_host(matrix(dx, channels));
  embedding.backward(p, batch, host_dx, all);

  std::vector<std::int32_t> order(batch.inputs.size()), first(vocabulary + 1);
  sort_by_token(batch.inputs, order, first);
  OnMachine<std::int32_t> const inputs{std::vector<std::int32_t>(batch.inputs.begin(), batch.inputs.end())};
  OnMachine<std::int32_t> const their_order{order}, their_first{first};
  OnMachine<T> const their_tokens{tokens, shift}, their_positions{positions, shift}, their_dx{dx, shift};
  OnMachine<T> const their_x{garbage<T>(rows * channels), shift};
  run(Embed<T>{{rows, channels}, inputs.data(), their_tokens.data(), their_positions.data(), context, their_x.data()});
  CHECK(error_of(their_x.values(), eigen(x)) < tolerance<T>);

  for (float const beta : {0.0F, 1.0F}) {
    auto const old = [&](std::size_t param) {
      auto const count = std::ssize(pass.values[param]);
      return beta == 0 ? garbage<G>(count) : random_values<G>(count, 9);
    };
    auto const expected = [&](std::size_t param) -> DoubleMatrix {
      DoubleMatrix gradient = matrix(pass.gradients[param], channels);
      if (beta == 1) {
        gradient += matrix(old(param), channels);
      }
      return gradient;
    };
    OnMachine<G> const dtokens{old(0), shift}, dpositions{old(1), shift};
    run(EmbedTokensBackward<T, G>{their_dx.data(), their_order.data(), their_first.data(), vocabulary, channels,
                                  dtokens.data(), beta});
    run(EmbedPositionsBackward<T, G>{their_dx.data(), rows, channels, context, dpositions.data(), beta});
    CHECK(error_of(dtokens.values(), expected(0)) < tolerance<G>);
    CHECK(error_of(dpositions.values(), expected(1)) < tolerance<G>);
  }
}

TEMPLATE_TEST_CASE("the embeddings and their gradients are the CPU's", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  check_embeddings<TestType>(35, 23, 0);
  check_embeddings<TestType>(40, 23, 0);
  check_embeddings<TestType>(40, 23, 3);
  check_embeddings<TestType, float>(40, 23, 0);
  check_embeddings<TestType, float>(35, 23, 3);
  check_embeddings<TestType>(264, 1, 0);  // more than a tile of columns, more of one token than its threads add at once
}

/// Checks the embedding of a tensor rank's words, and values that are then added to rows.
template <class T>
void check_parts_of_embedding(std::int64_t channels, std::int64_t shift) {
  INFO(channels << " channels, shift " << shift);
  std::int64_t const context = 9, rows = 2 * context, first_word = 7, words = 5, first_row = 13;
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < rows; ++i) {
    tokens.push_back(i);  // those below 7 and above 11 are other ranks'
  }
  auto const table = random_values<T>(words * channels, 1);
  auto const positions = random_values<T>(context * channels, 2);
  OnMachine<std::int32_t> const inputs{tokens};
  OnMachine<T> const their_table{table, shift}, their_positions{positions, shift};
  OnMachine<T> const x{garbage<T>(rows * channels), shift};
  run(EmbedPart<T>{{rows, channels}, inputs.data(), their_table.data(), first_word, words, x.data()});
  DoubleMatrix expected = DoubleMatrix::Zero(rows, channels);
  expected.middleRows(first_word, words) = matrix(table, channels);
  CHECK(error_of(x.values(), expected) == 0);
  run(AddRows<T>{{rows, channels}, their_positions.data(), context, first_row, x.data()});
  auto const of_positions = matrix(positions, channels);
  for (std::int64_t i = 0; i < rows; ++i) {
    expected.row(i) += of_positions.row((first_row + i) % context);
  }
  CHECK(error_of(x.values(), expected) < tolerance<T>);
  run(AddRows<T>{{rows, channels}, their_table.data(), 1, 0, x.data()});
  expected.rowwise() += matrix(table, channels).row(0);
  CHECK(error_of(x.values(), expected) < 2 * tolerance<T>);
}

TEMPLATE_TEST_CASE("a tensor rank embeds its words, and adds rows to rows", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  for (std::int64_t const shift : {0, 3}) {
    check_parts_of_embedding<TestType>(40, shift);
    check_parts_of_embedding<TestType>(35, shift);
    check_parts_of_embedding<TestType>(1100, shift);  // more than a block's threads take at once
  }
}

/// Checks sequences of `per_sequence` elements each.
template <class T>
void check_dropout(std::int64_t sequences, std::int64_t per_sequence, std::int64_t shift, std::int64_t offset = 0) {
  INFO(sequences << " sequences of " << per_sequence << " elements, shift " << shift << ", from element " << offset);
  auto const count = sequences * per_sequence - offset;
  zeroth::Random const random{.seed = 3, .step = 5, .sample = (std::int64_t{1} << 32U) - 2, .use = 7};
  Dropped const dropped{random, per_sequence, 0.25F, offset};
  auto const x = random_values<T>(count, 1);
  auto const residual = random_values<T>(count, 2);
  auto expected = on_host(matrix(x, count)), sum = on_host(matrix(x, count)), onto = on_host(matrix(residual, count));
  cpu::drop_out(dropped, count, expected.data(), expected.data());
  cpu::add_dropped_out(dropped, count, onto.data(), sum.data());

  OnMachine<T> const theirs{x, shift}, their_y{garbage<T>(count), shift}, their_residual{residual, shift};
  run(DropOut<T>{dropped, theirs.data(), nullptr, their_y.data(), count});
  auto const y = their_y.values();
  CHECK(error_of(y, eigen(expected)) < tolerance_of_one<T>);
  std::int64_t other = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    other += (expected.data()[i] == 0) == (wide(y[static_cast<std::size_t>(i)]) == 0) ? 0 : 1;
  }
  CHECK(other == 0);
  run(DropOut<T>{dropped, theirs.data(), their_residual.data(), theirs.data(), count});
  CHECK(error_of(theirs.values(), eigen(sum)) < tolerance<T>);
}

TEMPLATE_TEST_CASE("dropout leaves out what the CPU's does", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  for (std::int64_t const shift : {0, 3}) {
    check_dropout<TestType>(1, 1, shift);
    check_dropout<TestType>(5, 3, shift);  // several sequences in a pack
    check_dropout<TestType>(4, 96, shift);
    check_dropout<TestType>(3, 37, shift);
    check_dropout<TestType>(4, 1030, shift);
    check_dropout<TestType>(4, 1030, shift, 1030 + 17);  // a tensor rank's rows
    check_dropout<TestType>(4, 96, shift, 100);
  }
}

TEST_CASE("tokens are sorted, each one's places in order") {
  std::vector<std::uint8_t> const inputs{3, 0, 3, 255, 3, 1};
  std::vector<std::int32_t> order(6), first(257);
  sort_by_token(inputs, order, first);
  CHECK(order == std::vector<std::int32_t>{1, 5, 0, 2, 4, 3});
  CHECK(first[0] == 0);
  CHECK(first[1] == 1);
  CHECK(first[2] == 2);
  CHECK(first[3] == 2);
  CHECK(first[4] == 5);
  CHECK(first[255] == 5);
  CHECK(first[256] == 6);
}

}  // namespace gpt::gpu
