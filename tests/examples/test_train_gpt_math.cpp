// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cpu/kernels/gelu.hpp"
#include "cpu/onednn.hpp"
#include "gelu.hpp"
#include "gpt.hpp"
#include "onednn_here.hpp"
#include "random_batch.hpp"
#include "reference_pass.hpp"
#include "support/catch.hpp"

using namespace gpt;
using gpt::testing::random_batch;

namespace {

using Eigen::Index;
using DoubleMatrix = zeroth::Matrix<double>;

cpu::Matrix<double> random_matrix(Index rows, Index cols, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<double> normal;
  return on_host<double>(DoubleMatrix::NullaryExpr(rows, cols, [&] { return normal(random); }));
}

/// Central difference in double: the truncation is of order step^2, the rounding of order 1e-16 / step, so both are
/// below 1e-9 for functions whose value and third derivative are of order one. Tests below allow 1e-7.
double slope(double& at, std::function<double()> const& f) {
  constexpr double step = 1e-5;
  double const old = at;
  at = old + step;
  double const above = f();
  at = old - step;
  double const below = f();
  at = old;
  return (above - below) / (2 * step);
}
constexpr double tolerance = 1e-7;

/// The largest difference between `gradient` and the differences of `f` over `values`, against the larger of 1 and the
/// gradient. NaN counts as infinite.
double worst(double* values, double const* gradient, Index count, std::function<double()> const& f) {
  double largest = 0;
  for (Index i = 0; i < count; ++i) {
    double const error = std::abs(slope(values[i], f) - gradient[i]) / std::max(1.0, std::abs(gradient[i]));
    largest = std::max(largest, std::isnan(error) ? HUGE_VAL : error);
  }
  return largest;
}

void check_parameters(ReferencePass<double>& pass, std::function<double()> const& f) {
  for (std::size_t i = 0; i < pass.values.size(); ++i) {
    INFO(pass.name(i));
    CHECK(worst(pass.values[i].data(), pass.gradients[i].data(), std::ssize(pass.values[i]), f) < tolerance);
  }
}

struct Trained {
  float loss;
  std::vector<Values<float>> gradients;
};
Trained train_once(Shape const& shape, Batch const& batch, KeptBlocks kept, float dropout) {
  zeroth::Model model{3};
  Gpt<cpu::Cpu<float>> const gpt{GptParams{model, shape}, std::move(kept), dropout};
  ReferencePass<float> pass{model};
  auto workspace = gpt.workspace();
  float const loss = gpt.forward(pass, batch, workspace);
  gpt.backward(pass, batch, workspace, 1);
  return {loss, pass.gradients};
}

}  // namespace

TEST_CASE("the gradients of a linear layer match finite differences") {
  auto const rows = GENERATE(3, 259);  // one panel, and several with a remainder
  OneUnit only;
  Linear<Doubles> const linear{{only.model, only.unit, "linear", 4, 5, 0.1F}};
  ReferencePass<double> pass{only.model};
  auto x = random_matrix(rows, 4, 1);
  auto residual = random_matrix(rows, 5, 2);
  auto dy = random_matrix(rows, 5, 3);
  auto const p = pass.backward(only.unit);
  auto y = host_matrix<double>(rows, 5);
  auto const loss = [&] {
    linear.forward(p, x, residual, y);
    return eigen(y).cwiseProduct(eigen(dy)).sum();
  };
  auto dx = host_matrix<double>(rows, 4);
  linear.backward(p, x, dy, dx);
  CHECK(worst(x.data(), dx.data(), x.count(), loss) < tolerance);
  check_parameters(pass, loss);

  SECTION("the residual is only added") {
    loss();
    DoubleMatrix const with_residual = eigen(y);
    linear.forward(p, x, y);
    CHECK((with_residual - eigen(residual) - eigen(y)).cwiseAbs().maxCoeff() < 1e-12);
  }
  SECTION("the input's gradient may replace the input") {
    pass.clear_gradients();
    linear.backward(p, x, dy, x);
    CHECK(eigen(x) == eigen(dx));
  }
}

TEST_CASE("GELU after a linear layer, and its gradients, match finite differences") {
  Index const rows = 7;
  OneUnit only;
  Linear<Doubles> const up{{only.model, only.unit, "up", 4, 6, 0.1F}};
  Linear<Doubles> const down{{only.model, only.unit, "down", 6, 3, 0.1F}};
  ReferencePass<double> pass{only.model};
  auto x = random_matrix(rows, 4, 1);
  auto dy = random_matrix(rows, 3, 2);
  auto const p = pass.backward(only.unit);
  auto inner = host_matrix<double>(rows, 6), hidden = host_matrix<double>(rows, 6), y = host_matrix<double>(rows, 3);
  auto const loss = [&] {
    up.forward_gelu(p, x, inner, hidden);
    down.forward(p, hidden, y);
    return eigen(y).cwiseProduct(eigen(dy)).sum();
  };
  loss();
  DoubleMatrix const kept = eigen(hidden);
  CHECK((eigen(inner).unaryExpr(&gpt::testing::gelu_of) - kept).cwiseAbs().maxCoeff() < 1e-14);
  p.device.gelu(inner, hidden);
  CHECK(eigen(hidden) == kept);
  auto dx = host_matrix<double>(rows, 4);
  down.backward_gelu(p, hidden, inner, dy, hidden);
  up.backward(p, x, hidden, dx);
  CHECK(worst(x.data(), dx.data(), x.count(), loss) < tolerance);
  check_parameters(pass, loss);
}

TEST_CASE("the gradients of LayerNorm match finite differences") {
  OneUnit only;
  LayerNorm<Doubles> const norm{{only.model, only.unit, "norm", 7}};
  ReferencePass<double> pass{only.model};
  auto x = random_matrix(5, 7, 1);
  auto dy = random_matrix(5, 7, 2);
  auto before = random_matrix(5, 7, 3);
  auto const p = pass.backward(only.unit);
  LayerNorm<Doubles>::Tape tape;
  auto y = host_matrix<double>(5, 7);
  auto const loss = [&] {
    norm.forward(p, x, tape, y);
    return eigen(y).cwiseProduct(eigen(dy)).sum();
  };
  loss();
  auto dx = on_host<double>(eigen(before));
  norm.backward(p, x, tape, dy, dx);
  eigen(dx) -= eigen(before);  // it adds
  CHECK(worst(x.data(), dx.data(), x.count(), loss) < tolerance);
  check_parameters(pass, loss);

  loss();
  auto again = host_matrix<double>(5, 7);
  norm.again(p, x, tape, again);
  CHECK(eigen(again) == eigen(y));
}

TEST_CASE("GELU matches its definition, and its slope is its derivative") {
  std::int64_t const count = 3 * 2048 + 5;  // several chunks, the last not a whole one
  auto x = random_matrix(1, count, 1);
  auto y = host_matrix<double>(1, count);
  auto slope = on_host<double>(DoubleMatrix::Ones(1, count));
  cpu::gelu(x.data(), count, y.data());
  cpu::times_gelu_slope(x.data(), count, slope.data());
  CHECK((eigen(y) - eigen(x).unaryExpr(&gpt::testing::gelu_of)).cwiseAbs().maxCoeff() < 1e-14);
  CHECK((eigen(slope) - eigen(x).unaryExpr(&gpt::testing::gelu_slope_of)).cwiseAbs().maxCoeff() < 1e-14);
  auto const loss = [&] {
    cpu::gelu(x.data(), 31, y.data());
    return eigen(y).leftCols(31).sum();
  };
  CHECK(worst(x.data(), slope.data(), 31, loss) < tolerance);
}

TEST_CASE("attention is the softmax of the past, and its gradients match finite differences") {
  auto const context = GENERATE(5, 64, 131);  // one group of queries, exactly one, several with a remainder
  Index const heads = 2, channels = 6, width = 3, tokens = 2 * context;
  auto const multiply = cpu::eigen_matmul();
  Doubles on_cpu{*multiply};
  AttentionHeads const shape{.count = heads, .width = width, .context = context};
  auto qkv = random_matrix(tokens, 3 * channels, 1);
  auto dy = random_matrix(tokens, channels, 2);
  auto y = host_matrix<double>(tokens, channels), log_sums = host_matrix<double>(tokens, heads);
  auto const loss = [&] {
    on_cpu.attend(shape, qkv, log_sums, y);
    return eigen(y).cwiseProduct(eigen(dy)).sum();
  };
  loss();
  auto out = on_host<double>(eigen(y));

  auto const in = eigen(qkv);
  double largest = 0;
  for (Index i = 0; i < tokens; ++i) {
    for (Index h = 0; h < heads; ++h) {
      Index const first = i / context * context, past = i - first + 1;
      Eigen::RowVectorXd const q = in.row(i).segment(h * width, width);
      DoubleMatrix const k = in.block(first, channels + h * width, past, width);
      DoubleMatrix const v = in.block(first, 2 * channels + h * width, past, width);
      Eigen::RowVectorXd p = (q * k.transpose() / std::sqrt(3.0)).array().exp();
      p /= p.sum();
      largest = std::max(largest, (p * v - eigen(out).row(i).segment(h * width, width)).cwiseAbs().maxCoeff());
    }
  }
  CHECK(largest < 1e-12);

  auto dqkv = host_matrix<double>(tokens, 3 * channels);
  on_cpu.attend_backward(shape, qkv, out, log_sums, dy, dqkv);
  CHECK(eigen(dqkv).allFinite());
  if (context == 5) {
    CHECK(worst(qkv.data(), dqkv.data(), qkv.count(), loss) < tolerance);
  } else {  // all elements at once, in a random direction
    auto direction = random_matrix(tokens, 3 * channels, 4);
    DoubleMatrix const start = in;
    double t = 0;
    auto const along = [&] {
      eigen(qkv) = start + t * eigen(direction);
      return loss();
    };
    double const expected = eigen(dqkv).cwiseProduct(eigen(direction)).sum();
    CHECK(std::abs(slope(t, along) - expected) < tolerance * std::max(1.0, std::abs(expected)));
  }
}

TEST_CASE("the gradients of the whole model match finite differences, also with dropout") {
  float const dropout = GENERATE(0.0F, 0.3F);
  Shape const shape{.layers = 2, .heads = 2, .channels = 6, .context = 5, .vocabulary = 11};
  auto const batch = random_batch(10, 11, 1);
  zeroth::Model model{3};
  Gpt<Doubles> const gpt{model, shape, Recompute::off, dropout};
  ReferencePass<double> pass{model};
  auto workspace = gpt.workspace();
  double const seed = 4;  // such as a loss scale gives
  auto const loss = [&] { return seed * gpt.forward(pass, batch, workspace); };
  loss();
  gpt.backward(pass, batch, workspace, seed);
  check_parameters(pass, loss);
}

TEST_CASE("a second micro-batch adds its gradients") {
  Shape const shape{.layers = 1, .heads = 2, .channels = 6, .context = 5, .vocabulary = 11};
  zeroth::Model model{3};
  Gpt<Doubles> const gpt{model, shape, Recompute::off};
  ReferencePass<double> pass{model};
  auto workspace = gpt.workspace();
  auto const train = [&](unsigned seed) {
    auto const batch = random_batch(5, 11, seed);
    static_cast<void>(gpt.forward(pass, batch, workspace));
    gpt.backward(pass, batch, workspace, 1);
    return pass.gradients;
  };
  auto const first = train(1);
  pass.clear_gradients();
  auto const second = train(2);
  auto const both = train(1);
  double largest = 0;
  for (std::size_t i = 0; i < both.size(); ++i) {
    for (std::size_t j = 0; j < both[i].size(); ++j) {
      largest = std::max(largest, std::abs(both[i][j] - first[i][j] - second[i][j]));
    }
  }
  CHECK(largest < 1e-13);
}

TEST_CASE("recomputing the blocks changes no bit") {
  Shape const shape{.layers = 3, .heads = 2, .channels = 32, .context = 70};
  auto const batch = random_batch(2 * 70, 256, 5);
  for (float const dropout : {0.0F, 0.1F}) {
    INFO(dropout);
    auto const kept = train_once(shape, batch, KeptBlocks(3), dropout);
    for (unsigned recomputed = 1; recomputed < 8; ++recomputed) {  // every choice of the three
      INFO(recomputed);
      KeptBlocks blocks;
      for (unsigned i = 0; i < 3; ++i) {
        blocks.push_back({(recomputed >> i & 1U) != 0 ? Recompute::on : Recompute::off});
      }
      auto const again = train_once(shape, batch, blocks, dropout);
      CHECK(kept.loss == again.loss);
      CHECK((kept.gradients == again.gradients));  // in parentheses, because it is too long to print
    }
  }
}

TEST_CASE("dropout zeroes what its mask says, scales the rest, and has a different mask at each place") {
  Shape const shape{.heads = 1, .channels = 7, .context = 1000};  // more than is drawn at a time
  std::int64_t const rows = 2 * shape.context;
  auto matmul = cpu::eigen_matmul();
  Doubles device{*matmul};
  OpenUnit<Doubles, int> p{device, 0, {.seed = 1, .step = 2, .sample = 40}};
  auto const x = random_matrix(rows, shape.channels, 1);
  auto const residual = random_matrix(rows, shape.channels, 2);
  std::vector<std::byte> mask(static_cast<std::size_t>(x.count()));
  for (std::int64_t sequence = 0; sequence < 2; ++sequence) {
    auto const half = std::span{mask}.subspan(static_cast<std::size_t>(sequence) * mask.size() / 2, mask.size() / 2);
    zeroth::Random{.seed = 1, .step = 2, .sample = 40 + sequence, .use = 6}.keep(0, 0.25F, half);
  }
  Dropout<Doubles> const dropout{0.25F, 6, shape};
  auto out = random_matrix(rows, shape.channels, 1), onto = random_matrix(rows, shape.channels, 1);
  auto dx = host_matrix<double>(rows, shape.channels);
  dropout.forward(p, out);
  dropout.add(p, residual, onto);
  CHECK(&dropout.backward(p, x, dx) == &dx);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    double const stays = mask[static_cast<std::size_t>(i)] == std::byte{0} ? 0 : x.data()[i] / 0.75;
    wrong += std::abs(out.data()[i] - stays) < 1e-6 && std::abs(dx.data()[i] - stays) < 1e-6 ? 0 : 1;
    wrong += std::abs(onto.data()[i] - residual.data()[i] - stays) < 1e-6 ? 0 : 1;
    wrong += stays == 0 && out.data()[i] != 0 ? 1 : 0;
  }
  CHECK(wrong == 0);
  auto other = random_matrix(rows, shape.channels, 1);
  Dropout<Doubles>{0.25F, 7, shape}.forward(p, other);
  CHECK(eigen(other) != eigen(out));
  Dropout<Doubles> const none{0, 6, shape};
  CHECK_FALSE(none.on());
  CHECK(&none.backward(p, x, dx) == &x);
}

namespace {

/// The largest distance of a parameter's gradient from that in double, relative to its norm. Infinite if one is not a
/// number.
template <class G>
double worst_gradient(std::vector<Values<G>> const& narrow, std::vector<Values<double>> const& exact) {
  double largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double of_difference = 0, of_exact = 0;
    for (std::size_t j = 0; j < exact[i].size(); ++j) {
      double const error = static_cast<double>(zeroth::to_float(narrow[i][j])) - exact[i][j];
      of_difference += error * error;
      of_exact += exact[i][j] * exact[i][j];
    }
    double const error = std::sqrt(of_difference / of_exact);
    largest = std::max(largest, std::isnan(error) ? HUGE_VAL : error);
  }
  return largest;
}

/// The tolerated error of a gradient, relative to its norm. fp32 has some hundred roundings of 6e-8 that mostly cancel.
/// Activations in 16 bits lose 2^-9 or 2^-11 of themselves at each of some ten roundings per block. These add up like
/// independent errors, and large weights amplify them.
template <class T>
double bound = 1e-5;
template <>
double bound<zeroth::bf16> = 20 * 0x1p-8;
template <>
double bound<zeroth::fp16> = 20 * 0x1p-10;

template <class T, class G = T>
void check_near_double(Shape const& shape, std::unique_ptr<cpu::Matmul> matmul) {
  auto const batch =
      random_batch(2 * shape.context, static_cast<int>(std::min<std::int64_t>(shape.vocabulary, 256)), 5);
  zeroth::Model model{3};
  GptParams const params{model, shape};
  auto const train = [&]<class U>(U /*element*/, auto& pass) {
    Gpt<cpu::Cpu<U>> const gpt{params, Recompute::off};
    auto workspace = gpt.workspace();
    auto const loss = gpt.forward(pass, batch, workspace);
    gpt.backward(pass, batch, workspace, 4);
    return static_cast<double>(loss);
  };
  ReferencePass<T, G> pass{model, std::move(matmul)};
  ReferencePass<double> exact{model};
  for (std::size_t i = 0; i < pass.values.size(); ++i) {
    std::ranges::transform(pass.values[i], exact.values[i].begin(),
                           [](T value) { return static_cast<double>(zeroth::to_float(value)); });
  }
  double const loss = train(T{}, pass);
  CHECK(loss == Approx(train(double{}, exact)).epsilon(bound<T> / 2));
  CHECK(worst_gradient(pass.gradients, exact.gradients) < bound<T>);
}

Shape const even{.layers = 2, .heads = 2, .channels = 48, .context = 72, .vocabulary = 67};
Shape const odd{.layers = 2, .heads = 3, .channels = 33, .context = 129, .vocabulary = 257};
Shape const wide{.layers = 2, .heads = 2, .channels = 48, .context = 8, .vocabulary = 67};  // heads > context

}  // namespace

TEMPLATE_TEST_CASE("the model matches double precision to rounding", "", float, zeroth::bf16, zeroth::fp16) {
  auto const& shape = GENERATE(even, odd, wide);
  CAPTURE(shape.channels);
  check_near_double<TestType>(shape, cpu::eigen_matmul());
  check_near_double<TestType, float>(shape, cpu::eigen_matmul());
}

TEMPLATE_TEST_CASE("with oneDNN the model matches double precision to rounding", "", float, zeroth::bf16) {
  if (!gpt::testing::onednn_multiplies(zeroth::dtype_of<TestType>)) {
    WARN("oneDNN is not there, or has no such products for this processor: nothing is tested");
    return;
  }
  auto const& shape = GENERATE(even, odd);
  CAPTURE(shape.channels);
  check_near_double<TestType>(shape, cpu::onednn_matmul());
  check_near_double<TestType, float>(shape, cpu::onednn_matmul());
}

TEST_CASE("the parameters are those of Hugging Face's GPT2LMHeadModel") {
  zeroth::Model model;
  Gpt<cpu::Cpu<float>> const gpt{
      model, {.layers = 2, .heads = 3, .channels = 12, .context = 8, .vocabulary = 300}, Recompute::off};
  std::vector<std::string> listed;
  for (auto const& param : model.description().params) {
    std::string line = param.name;
    for (auto const extent : param.shape) {
      line += " " + std::to_string(extent);
    }
    CHECK(param.options.weight_decay_factor == (param.shape.size() >= 2 ? 1.0F : 0.0F));
    listed.push_back(line);
  }
  std::vector<std::string> expected{"transformer.wte.weight 300 12", "transformer.wpe.weight 8 12"};
  for (std::string const block : {"transformer.h.0.", "transformer.h.1."}) {
    for (char const* param :
         {"ln_1.weight 12", "ln_1.bias 12", "attn.c_attn.weight 12 36", "attn.c_attn.bias 36",
          "attn.c_proj.weight 12 12", "attn.c_proj.bias 12", "ln_2.weight 12", "ln_2.bias 12", "mlp.c_fc.weight 12 48",
          "mlp.c_fc.bias 48", "mlp.c_proj.weight 48 12", "mlp.c_proj.bias 12"}) {
      expected.push_back(block + param);
    }
  }
  expected.insert(expected.end(), {"transformer.ln_f.weight 12", "transformer.ln_f.bias 12"});
  CHECK(listed == expected);
}
