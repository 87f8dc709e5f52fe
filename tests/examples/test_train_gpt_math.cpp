// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "model.hpp"
#include "random_batch.hpp"
#include "reference_pass.hpp"
#include "support/catch.hpp"

using namespace gpt;
using gpt::testing::random_batch;

namespace {

using Eigen::Index;

template <class S>
Matrix<S> random_matrix(Index rows, Index cols, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<double> normal;
  return Matrix<S>::NullaryExpr(rows, cols, [&] { return static_cast<S>(normal(random)); });
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

template <class S>
struct Trained {
  S loss;
  std::vector<Values<S>> gradients;
};
template <class S>
Trained<S> train_once(Shape const& shape, Batch const& batch, Recompute recompute, S seed = 1) {
  zeroth::Model model{3};
  Gpt<S> const gpt{model, shape, recompute};
  ReferencePass<S> pass{model};
  auto workspace = gpt.workspace();
  S const loss = gpt.forward(pass, batch, workspace);
  gpt.backward(pass, batch, workspace, seed);
  return {loss, pass.gradients};
}

}  // namespace

TEST_CASE("the gradients of a linear layer match finite differences") {
  auto const rows = GENERATE(3, 259);  // one panel, and several with a remainder
  OneUnit only;
  Linear<double> const linear{{only.model, only.unit, "linear", 4, 5, 0.1F}};
  ReferencePass<double> pass{only.model};
  auto x = random_matrix<double>(rows, 4, 1);
  auto residual = random_matrix<double>(rows, 5, 2);
  auto const dy = random_matrix<double>(rows, 5, 3);
  auto const p = pass.backward(only.unit);
  Matrix<double> y(rows, 5);
  auto const loss = [&] {
    linear.forward(p, x, residual, y);
    return y.cwiseProduct(dy).sum();
  };
  Matrix<double> dx(rows, 4);
  linear.backward(p, x, dy, dx);
  CHECK(worst(x.data(), dx.data(), x.size(), loss) < tolerance);
  check_parameters(pass, loss);

  SECTION("and the residual is only added") {
    loss();
    Matrix<double> const with_residual = y;
    linear.forward(p, x, y);
    CHECK((with_residual - residual - y).cwiseAbs().maxCoeff() < 1e-12);
  }
  SECTION("and the input's gradient may replace the input") {
    pass.clear_gradients();
    linear.backward(p, x, dy, x);
    CHECK(x == dx);
  }
}

TEST_CASE("the gradients of LayerNorm match finite differences") {
  OneUnit only;
  LayerNorm<double> const norm{{only.model, only.unit, "norm", 7}};
  ReferencePass<double> pass{only.model};
  auto x = random_matrix<double>(5, 7, 1);
  auto const dy = random_matrix<double>(5, 7, 2);
  auto const before = random_matrix<double>(5, 7, 3);
  auto const p = pass.backward(only.unit);
  LayerNorm<double>::Tape tape;
  Matrix<double> y(5, 7);
  auto const loss = [&] {
    norm.forward(p, x, tape, y);
    return y.cwiseProduct(dy).sum();
  };
  loss();
  Matrix<double> dx = before;
  norm.backward(p, x, tape, dy, dx);
  dx -= before;  // it adds
  CHECK(worst(x.data(), dx.data(), x.size(), loss) < tolerance);
  check_parameters(pass, loss);
}

TEST_CASE("the slope of GELU matches finite differences, and its values the definition") {
  Matrix<double> x =
      Matrix<double>::NullaryExpr(4, 31, [](Index i, Index j) { return 0.1 * static_cast<double>(31 * i + j - 62); });
  Matrix<double> y(4, 31), again(4, 31), slopes(4, 31);
  gelu<double>(x, y);
  gelu_and_slope<double>(x, again, slopes);
  CHECK(y == again);
  for (Index i = 0; i < x.size(); ++i) {
    double const u = x.data()[i];
    CHECK(y.data()[i] ==
          Approx(0.5 * u * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (u + 0.044715 * u * u * u)))).margin(1e-15));
  }
  auto const loss = [&] {
    gelu<double>(x, y);
    return y.sum();
  };
  CHECK(worst(x.data(), slopes.data(), x.size(), loss) < tolerance);
}

TEST_CASE("attention is the softmax of the past, and its gradients match finite differences") {
  auto const context = GENERATE(5, 64, 131);  // one group of queries, exactly one, several with a remainder
  Index const heads = 2, channels = 6, width = 3, tokens = 2 * context;
  Attention<double> const attention{heads, channels, context};
  Attention<double>::Scratch scratch;
  auto qkv = random_matrix<double>(tokens, 3 * channels, 1);
  auto const dy = random_matrix<double>(tokens, channels, 2);
  Matrix<double> y(tokens, channels), log_sums;
  auto const loss = [&] {
    attention.forward(qkv, log_sums, scratch, y);
    return y.cwiseProduct(dy).sum();
  };
  loss();
  Matrix<double> const out = y;

  double largest = 0;
  for (Index i = 0; i < tokens; ++i) {
    for (Index h = 0; h < heads; ++h) {
      Index const first = i / context * context, past = i - first + 1;
      Eigen::RowVectorXd const q = qkv.row(i).segment(h * width, width);
      Matrix<double> const k = qkv.block(first, channels + h * width, past, width);
      Matrix<double> const v = qkv.block(first, 2 * channels + h * width, past, width);
      Eigen::RowVectorXd p = (q * k.transpose() / std::sqrt(3.0)).array().exp();
      p /= p.sum();
      largest = std::max(largest, (p * v - out.row(i).segment(h * width, width)).cwiseAbs().maxCoeff());
    }
  }
  CHECK(largest < 1e-12);

  Matrix<double> dqkv(tokens, 3 * channels);
  dqkv.setConstant(std::nan(""));
  attention.backward(qkv, out, log_sums, scratch, dy, dqkv);
  CHECK(dqkv.allFinite());
  if (context == 5) {
    CHECK(worst(qkv.data(), dqkv.data(), qkv.size(), loss) < tolerance);
  } else {  // all elements at once, in a random direction
    auto const direction = random_matrix<double>(tokens, 3 * channels, 4);
    Matrix<double> const start = qkv;
    double t = 0;
    auto const along = [&] {
      qkv = start + t * direction;
      return loss();
    };
    double const expected = dqkv.cwiseProduct(direction).sum();
    CHECK(std::abs(slope(t, along) - expected) < tolerance * std::max(1.0, std::abs(expected)));
  }
}

TEST_CASE("the gradients of the whole model match finite differences") {
  Shape const shape{.layers = 2, .heads = 2, .channels = 6, .context = 5, .vocabulary = 11};
  auto const batch = random_batch(10, 11, 1);
  zeroth::Model model{3};
  Gpt<double> const gpt{model, shape, Recompute::off};
  ReferencePass<double> pass{model};
  auto workspace = gpt.workspace();
  double const seed = 4;  // of a loss scale
  auto const loss = [&] { return seed * gpt.forward(pass, batch, workspace); };
  loss();
  gpt.backward(pass, batch, workspace, seed);
  check_parameters(pass, loss);
}

TEST_CASE("a second micro-batch adds its gradients") {
  Shape const shape{.layers = 1, .heads = 2, .channels = 6, .context = 5, .vocabulary = 11};
  auto const first = random_batch(5, 11, 1), second = random_batch(5, 11, 2);
  auto const a = train_once<double>(shape, first, Recompute::off);
  auto const b = train_once<double>(shape, second, Recompute::off);
  zeroth::Model model{3};
  Gpt<double> const gpt{model, shape, Recompute::off};
  ReferencePass<double> pass{model};
  auto workspace = gpt.workspace();
  for (auto const* batch : {&first, &second}) {
    gpt.forward(pass, *batch, workspace);
    gpt.backward(pass, *batch, workspace, 1);
  }
  double largest = 0;
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    for (std::size_t j = 0; j < a.gradients[i].size(); ++j) {
      largest = std::max(largest, std::abs(pass.gradients[i][j] - a.gradients[i][j] - b.gradients[i][j]));
    }
  }
  CHECK(largest < 1e-13);
}

TEST_CASE("recomputing the blocks changes no bit") {
  Shape const shape{.layers = 3, .heads = 2, .channels = 32, .context = 70};
  auto const batch = random_batch(2 * 70, 256, 5);
  auto const kept = train_once<float>(shape, batch, Recompute::off);
  auto const recomputed = train_once<float>(shape, batch, Recompute::on);
  CHECK(kept.loss == recomputed.loss);
  CHECK((kept.gradients == recomputed.gradients));  // in parentheses: too long to print
}

TEST_CASE("fp32 is double but for rounding") {
  // Sums of up to 4 * 64 products and 140 rows, through three blocks: some hundred roundings of 6e-8 that mostly
  // cancel.
  Shape const shape{.layers = 3, .heads = 2, .channels = 64, .context = 70};
  auto const batch = random_batch(2 * 70, 256, 5);
  auto const narrow = train_once<float>(shape, batch, Recompute::off);
  auto const wide = train_once<double>(shape, batch, Recompute::off);
  CHECK(static_cast<double>(narrow.loss) == Approx(wide.loss).epsilon(1e-6));
  for (std::size_t i = 0; i < wide.gradients.size(); ++i) {
    auto const count = std::ssize(wide.gradients[i]);
    Eigen::Map<Eigen::VectorXd const> const exact{wide.gradients[i].data(), count};
    Eigen::Map<Eigen::VectorXf const> const rounded{narrow.gradients[i].data(), count};
    INFO("parameter " << i);
    CHECK((rounded.cast<double>() - exact).norm() < 1e-5 * exact.norm());
  }
}

TEST_CASE("the parameters are those of Hugging Face's GPT2LMHeadModel") {
  zeroth::Model model;
  Gpt<float> const gpt{
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
