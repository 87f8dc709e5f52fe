/// Kernels of train_gpt against the CPU's layers in double: embedding, LayerNorm, GELU, sums over rows.
///
/// Tolerances: a result in fp32 comes from sums of at most some hundred terms of order one, so 1e-5 of the largest
/// value leaves two decimal digits to rounding. One that is stored in 16 bits is rounded once more, by at most 2^-9
/// (bf16) or 2^-11 (fp16) of itself.
#include <cmath>
#include <numeric>
#include <vector>

#include "embedding.hpp"
#include "examples/gpu/numbers.hpp"
#include "examples/reference_pass.hpp"
#include "gelu.hpp"
#include "gpu/bodies.hpp"
#include "gpu/token_order.hpp"
#include "layer_norm.hpp"

namespace gpt::gpu {
namespace {

using namespace gpt::testing;

template <class T>
void check_layer_norm(std::int64_t rows, std::int64_t columns) {
  OneUnit reference;
  gpt::LayerNorm<double> const norm{{reference.model, reference.unit, "norm", columns}};
  ReferencePass<double> pass{reference.model};
  auto const x = random_values<T>(rows * columns, 1);
  auto const dy = random_values<T>(rows * columns, 2);
  auto const before = random_values<T>(rows * columns, 3);
  auto const weight = rounded<T>(pass.values[0]);
  auto const bias = rounded<T>(pass.values[1]);
  auto const p = pass.backward(reference.unit);
  gpt::LayerNorm<double>::Tape tape;
  DoubleMatrix y{rows, columns};
  norm.forward(p, matrix(x, columns), tape, y);
  DoubleMatrix dx = matrix(before, columns);
  norm.backward(p, matrix(x, columns), tape, matrix(dy, columns), dx);

  OnMachine<T> const their_x{x}, their_dy{dy}, their_dx{before}, their_weight{weight}, their_bias{bias};
  OnMachine<T> const their_y{garbage<T>(rows * columns)}, their_y_again{garbage<T>(rows * columns)};
  OnMachine<float> const mean{garbage<float>(rows)}, rstd{garbage<float>(rows)};
  LayerNormForward<T> const forward{their_x.data(), their_weight.data(), their_bias.data(), rows,
                                    columns,        mean.data(),         rstd.data(),       their_y.data()};
  run(forward);
  CHECK(error_of(their_y.values(), y) < tolerance<T>);
  CHECK(error_of(mean.values(), tape.mean) < tolerance<float>);
  CHECK(error_of(rstd.values(), tape.rstd) < tolerance<float>);
  run(LayerNormAgain<T>{their_x.data(), their_weight.data(), their_bias.data(), rows, columns, mean.data(), rstd.data(),
                        their_y_again.data()});
  CHECK(error_of(their_y_again.values(), y) < tolerance<T>);

  run(LayerNormBackward<T>{their_x.data(), their_dy.data(), their_weight.data(), mean.data(), rstd.data(), rows,
                           columns, their_dx.data()});
  CHECK(error_of(their_dx.values(), dx) < tolerance<T>);

  using Sums = ChunkSums<LayerNormTerms<T>>;
  auto const chunks = Sums::chunks_of(rows);
  OnMachine<float> const sums{garbage<float>(chunks * 2 * columns)};
  run(Sums{{their_x.data(), their_dy.data(), mean.data(), rstd.data(), columns}, rows, columns, sums.data()});
  for (std::size_t k = 0; k < 2; ++k) {  // of weight and bias
    for (float const beta : {0.0F, 1.0F}) {
      auto const old = beta == 0 ? garbage<float>(columns) : random_values<float>(columns, 4);
      OnMachine<float> const gradient{old};
      run(FoldChunks<float>{sums.data() + static_cast<std::int64_t>(k) * columns, 2 * columns, chunks, columns,
                            gradient.data(), beta});
      DoubleMatrix expected = matrix(pass.gradients[k], columns);
      if (beta == 1) {
        expected += matrix(old, columns);
      }
      CHECK(error_of(gradient.values(), expected) < tolerance<float>);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("LayerNorm is the CPU's, forward and backward", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  check_layer_norm<TestType>(1, 1);
  check_layer_norm<TestType>(7, 24);
  check_layer_norm<TestType>(261, 33);  // more rows than a chunk of sums has
  check_layer_norm<TestType>(5, 130);
}

TEMPLATE_TEST_CASE("sums over rows are rounded once, into what is there", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  std::int64_t const rows = 515, columns = 37;
  auto const values = random_values<TestType>(rows * columns, 1);
  auto const old = random_values<TestType>(columns, 2);
  OnMachine<TestType> const theirs{values}, added{old}, fresh{garbage<TestType>(columns)};
  using Sums = ChunkSums<ValueTerms<TestType>>;
  auto const chunks = Sums::chunks_of(rows);
  CHECK(chunks == 3);
  OnMachine<float> const sums{garbage<float>(chunks * columns)};
  run(Sums{{theirs.data(), columns}, rows, columns, sums.data()});
  run(FoldChunks<TestType>{sums.data(), columns, chunks, columns, fresh.data(), 0});
  run(FoldChunks<TestType>{sums.data(), columns, chunks, columns, added.data(), 1});
  DoubleMatrix const expected = matrix(values, columns).colwise().sum();
  CHECK(error_of(fresh.values(), expected) < tolerance<TestType>);
  CHECK(error_of(added.values(), expected + matrix(old, columns)) < tolerance<TestType>);
}

TEMPLATE_TEST_CASE("GELU and its slope are the CPU's", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  std::int64_t const count = 5003;
  auto x = random_values<TestType>(count, 1);
  x[3] = zeroth::from_float<TestType>(30);  // where tanh is one, and minus one
  x[4] = zeroth::from_float<TestType>(-30);
  auto const d = random_values<TestType>(count, 2);
  DoubleMatrix y{1, count}, slope{1, count};
  gelu_and_slope<double>(matrix(x, count), y, slope);
  for (std::int64_t const shift : {0, 3}) {
    OnMachine<TestType> const theirs{x, shift}, their_y{garbage<TestType>(count), shift}, their_d{d, shift};
    run(Gelu<TestType>{theirs.data(), their_y.data(), count, false});
    run(Gelu<TestType>{theirs.data(), their_d.data(), count, true});
    CHECK(error_of(their_y.values(), y) < tolerance<TestType>);
    CHECK(error_of(their_d.values(), matrix(d, count).cwiseProduct(slope)) < tolerance<TestType>);
  }
}

TEMPLATE_TEST_CASE("the embeddings and their gradients are the CPU's", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  std::int64_t const vocabulary = 41, channels = 35, context = 9, rows = 4 * context;
  OneUnit reference;
  gpt::EmbeddingParams const params{reference.model,
                                    {.channels = channels, .context = context, .vocabulary = vocabulary}};
  gpt::Embedding<double> const embedding{params};
  ReferencePass<double> pass{reference.model};
  auto const tokens = rounded<TestType>(pass.values[0]);
  auto const positions = rounded<TestType>(pass.values[1]);
  auto batch = random_batch(rows, 23, 1);  // tokens that do not occur have a gradient, too: none
  auto const p = pass.backward(embedding.unit());
  DoubleMatrix x;
  embedding.forward(p, batch, x);
  auto const dx = random_values<TestType>(rows * channels, 2);
  embedding.backward(p, batch, matrix(dx, channels));

  std::vector<std::int32_t> order(batch.inputs.size()), first(vocabulary + 1);
  sort_by_token(batch.inputs, order, first);
  OnMachine<std::int32_t> const inputs{std::vector<std::int32_t>(batch.inputs.begin(), batch.inputs.end())};
  OnMachine<std::int32_t> const their_order{order}, their_first{first};
  OnMachine<TestType> const their_tokens{tokens}, their_positions{positions}, their_dx{dx};
  OnMachine<TestType> const their_x{garbage<TestType>(rows * channels)};
  run(Embed<TestType>{inputs.data(), their_tokens.data(), their_positions.data(), rows, channels, context,
                      their_x.data()});
  CHECK(error_of(their_x.values(), x) < tolerance<TestType>);

  for (float const beta : {0.0F, 1.0F}) {
    auto const old = [&](std::size_t param) {
      auto const count = std::ssize(pass.values[param]);
      return beta == 0 ? garbage<TestType>(count) : random_values<TestType>(count, 9);
    };
    auto const expected = [&](std::size_t param) -> DoubleMatrix {
      DoubleMatrix gradient = matrix(pass.gradients[param], channels);
      if (beta == 1) {
        gradient += matrix(old(param), channels);
      }
      return gradient;
    };
    OnMachine<TestType> const dtokens{old(0)}, dpositions{old(1)};
    run(EmbedTokensBackward<TestType, TestType>{their_dx.data(), their_order.data(), their_first.data(), vocabulary,
                                                channels, dtokens.data(), beta});
    run(EmbedPositionsBackward<TestType, TestType>{their_dx.data(), rows, channels, context, dpositions.data(), beta});
    CHECK(error_of(dtokens.values(), expected(0)) < tolerance<TestType>);
    CHECK(error_of(dpositions.values(), expected(1)) < tolerance<TestType>);
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
