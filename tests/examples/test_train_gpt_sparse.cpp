// SPDX-License-Identifier: Apache-2.0
/// Block-sparse attention of train_gpt on the CPU, against masked dense attention in double.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpu/onednn.hpp"
#include "gpt.hpp"
#include "key_blocks.hpp"
#include "onednn_here.hpp"
#include "random_batch.hpp"
#include "reference_pass.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "support/thrown.hpp"

using namespace gpt;
using gpt::testing::random_batch;
using zeroth::AttentionDirection;
using zeroth::BlockLayout;
using zeroth::SparseAttention;
using zeroth::SparseMode;

namespace {

using Eigen::Index;
using DoubleMatrix = zeroth::Matrix<double>;

constexpr std::int64_t heads = 3, width = 4, channels = heads * width;

DoubleMatrix random_values(Index rows, Index cols, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<double> normal;
  return DoubleMatrix::NullaryExpr(rows, cols, [&] { return normal(random); });
}

BlockLayout causal(SparseAttention parameters, std::int64_t context) {
  parameters.attention = AttentionDirection::unidirectional;
  return {parameters, heads, context, 3};
}

/// Each mode with blocks smaller than a group of rows, as large, larger, and of sizes that are no multiple of it.
std::vector<BlockLayout> layouts() {
  std::vector<BlockLayout> all;
  for (auto const& [block, context] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 37}, {5, 100}, {16, 208}, {48, 480}, {64, 640}, {100, 700}, {128, 1024}}) {
    all.push_back(causal({.mode = SparseMode::dense, .block = block}, context));
    all.push_back(causal({.mode = SparseMode::fixed, .block = block, .num_local_blocks = 2}, context));
    all.push_back(causal({.mode = SparseMode::fixed,
                          .block = block,
                          .different_layout_per_head = true,
                          .num_local_blocks = 3,
                          .num_different_global_patterns = 3},
                         context));
    all.push_back(causal({.mode = SparseMode::variable,
                          .block = block,
                          .num_random_blocks = 1,
                          .local_window_blocks = {1, 2},
                          .global_block_indices = {1}},
                         context));
    all.push_back(
        causal({.mode = SparseMode::bigbird, .block = block, .different_layout_per_head = true, .num_random_blocks = 2},
               context));
    all.push_back(causal({.mode = SparseMode::bslongformer, .block = block, .global_block_indices = {2}}, context));
    all.push_back(causal({.mode = SparseMode::local_sliding_window, .block = block}, context));
  }
  return all;
}

/// The results of attention, widened.
struct Results {
  DoubleMatrix y, dqkv, log_sums;
};

template <class T>
cpu::Matrix<T> narrowed(DoubleMatrix const& values) {
  auto matrix = host_matrix<T>(values.rows(), values.cols());
  for (Index i = 0; i < values.size(); ++i) {
    if constexpr (std::same_as<T, double>) {
      matrix.data()[i] = values.data()[i];
    } else {
      matrix.data()[i] = zeroth::from_float<T>(static_cast<float>(values.data()[i]));
    }
  }
  return matrix;
}
template <class T>
DoubleMatrix widened(cpu::Matrix<T> const& matrix) {
  DoubleMatrix values(matrix.rows(), matrix.cols());
  for (Index i = 0; i < values.size(); ++i) {
    if constexpr (std::same_as<T, double>) {
      values.data()[i] = matrix.data()[i];
    } else {
      values.data()[i] = static_cast<double>(zeroth::to_float(matrix.data()[i]));
    }
  }
  return values;
}

template <class T>
Results attend(cpu::Matmul& multiply, AttentionHeads const& shape, DoubleMatrix const& of_qkv,
               DoubleMatrix const& of_dy) {
  cpu::Cpu<T> on_cpu{multiply};
  auto const qkv = narrowed<T>(of_qkv), dy = narrowed<T>(of_dy);
  auto y = host_matrix<T>(of_dy.rows(), channels), dqkv = host_matrix<T>(of_dy.rows(), 3 * channels);
  auto log_sums = host_matrix<cpu::WideOf<T>>(of_dy.rows(), heads);
  on_cpu.attend(shape, qkv, log_sums, y);
  on_cpu.attend_backward(shape, qkv, y, log_sums, dy, dqkv);
  return {widened(y), widened(dqkv), widened(log_sums)};
}

/// The same by whole matrices with a mask.
Results masked(BlockLayout const& layout, DoubleMatrix const& qkv, DoubleMatrix const& dy) {
  auto const context = layout.context();
  double const scale = 1 / std::sqrt(static_cast<double>(width));
  Results all{DoubleMatrix(dy.rows(), channels), DoubleMatrix(dy.rows(), 3 * channels), DoubleMatrix(dy.rows(), heads)};
  for (Index first = 0; first < dy.rows(); first += context) {
    for (Index h = 0; h < heads; ++h) {
      DoubleMatrix const q = qkv.block(first, h * width, context, width);
      DoubleMatrix const k = qkv.block(first, channels + h * width, context, width);
      DoubleMatrix const v = qkv.block(first, 2 * channels + h * width, context, width);
      DoubleMatrix const of_y = dy.block(first, h * width, context, width);
      DoubleMatrix p = (q * k.transpose() * scale).array().exp();
      for (Index i = 0; i < context; ++i) {
        for (Index j = 0; j < context; ++j) {
          bool const reads = j <= i && layout.has(h, i / layout.block(), j / layout.block());
          p(i, j) = reads ? p(i, j) : 0;
        }
        all.log_sums(first + i, h) = std::log(p.row(i).sum());
        p.row(i) /= p.row(i).sum();
      }
      DoubleMatrix const y = p * v;
      DoubleMatrix ds = of_y * v.transpose();
      ds.colwise() -= y.cwiseProduct(of_y).rowwise().sum().eval();
      ds = ds.cwiseProduct(p) * scale;
      all.y.block(first, h * width, context, width) = y;
      all.dqkv.block(first, h * width, context, width) = ds * k;
      all.dqkv.block(first, channels + h * width, context, width) = ds.transpose() * q;
      all.dqkv.block(first, 2 * channels + h * width, context, width) = p.transpose() * of_y;
    }
  }
  return all;
}

std::string name_of(BlockLayout const& layout) {
  return "block " + std::to_string(layout.block()) + ", context " + std::to_string(layout.context()) + ", " +
         std::to_string(layout.count(0)) + " blocks";
}

double difference(DoubleMatrix const& a, DoubleMatrix const& b) {
  return (a - b).allFinite() ? (a - b).cwiseAbs().maxCoeff() : HUGE_VAL;
}

}  // namespace

TEST_CASE("sparse attention and its gradients are those of dense attention with the layout as a mask") {
  auto const multiply = cpu::eigen_matmul();
  for (auto const& layout : zeroth::testing::sampled(layouts(), 11)) {
    INFO(name_of(layout));
    KeyBlocks const key_blocks{layout, 0, heads};
    auto const tokens = 2 * layout.context();
    auto const qkv = random_values(tokens, 3 * channels, 1), dy = random_values(tokens, channels, 2);
    AttentionHeads const shape{.count = heads, .width = width, .context = layout.context(), .key_blocks = &key_blocks};
    auto const exact = masked(layout, qkv, dy);
    auto const found = attend<double>(*multiply, shape, qkv, dy);
    CHECK(difference(found.y, exact.y) < 1e-12);
    CHECK(difference(found.log_sums, exact.log_sums) < 1e-12);
    CHECK(difference(found.dqkv, exact.dqkv) < 1e-11);
    auto const narrow = attend<float>(*multiply, shape, qkv, dy);
    CHECK(difference(narrow.y, exact.y) < 1e-4);
    CHECK(difference(narrow.dqkv, exact.dqkv) < 1e-3);
  }
}

TEST_CASE("a dense layout has the bits of attention without one") {
  auto const multiply = cpu::eigen_matmul();
  for (auto const& [block, context] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 37}, {5, 100}, {16, 208}, {48, 480}, {64, 640}, {128, 1024}, {131, 131}}) {
    INFO("block " << block);
    KeyBlocks const key_blocks{causal({.mode = SparseMode::dense, .block = block}, context), 0, heads};
    auto const qkv = random_values(2 * context, 3 * channels, 1), dy = random_values(2 * context, channels, 2);
    AttentionHeads shape{.count = heads, .width = width, .context = context};
    auto const without = attend<float>(*multiply, shape, qkv, dy);
    shape.key_blocks = &key_blocks;
    auto const with = attend<float>(*multiply, shape, qkv, dy);
    CHECK((with.y == without.y && with.dqkv == without.dqkv && with.log_sums == without.log_sums));
  }
}

TEST_CASE("bf16's sparse attention is as close as its dense attention, with oneDNN's products too") {
  auto const eigen_products = cpu::eigen_matmul();
  auto const layout = causal({.mode = SparseMode::bigbird, .block = 16, .num_random_blocks = 2}, 304);
  KeyBlocks const key_blocks{layout, 0, heads};
  auto const qkv = random_values(304, 3 * channels, 1), dy = random_values(304, channels, 2);
  AttentionHeads const shape{.count = heads, .width = width, .context = 304, .key_blocks = &key_blocks};
  auto const exact = masked(layout, qkv, dy);
  auto const check = [&](cpu::Matmul& multiply) {
    auto const found = attend<zeroth::bf16>(multiply, shape, qkv, dy);
    CHECK(difference(found.y, exact.y) < 0.1);
    CHECK(difference(found.dqkv, exact.dqkv) < 0.3);
  };
  check(*eigen_products);
  if (gpt::testing::onednn_multiplies(zeroth::Dtype::bf16)) {
    check(*cpu::onednn_matmul());
  }
}

TEST_CASE("the gradients of a whole sparse model match finite differences") {
  Shape const shape{.layers = 2, .heads = 2, .channels = 6, .context = 8, .vocabulary = 11};
  auto const batch = random_batch(16, 11, 1);
  zeroth::Model model{3};
  GptParams params{model, shape};
  BlockLayout const layout{
      {.mode = SparseMode::local_sliding_window, .block = 2, .attention = AttentionDirection::unidirectional}, 2, 8};
  params.key_blocks = std::make_shared<KeyBlocks const>(layout, 0, 2);
  Gpt<Doubles> const gpt{params, Recompute::off};
  Gpt<Doubles> const recomputing{params, Recompute::on};
  ReferencePass<double> pass{model};
  auto workspace = gpt.workspace();
  auto const loss = [&] { return gpt.forward(pass, batch, workspace); };
  double const at_first = loss();
  gpt.backward(pass, batch, workspace, 1);
  auto const gradients = pass.gradients;
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < pass.values.size(); ++i) {
    INFO(pass.name(i));
    double worst = 0;
    for (std::size_t j = 0; j < pass.values[i].size(); ++j) {
      double& value = pass.values[i][j];
      double const old = value;
      value = old + step;
      double const above = loss();
      value = old - step;
      double const below = loss();
      value = old;
      worst = std::max(worst, std::abs((above - below) / (2 * step) - gradients[i][j]));
    }
    CHECK(worst < 1e-7);
  }
  pass.clear_gradients();
  auto second = recomputing.workspace();
  CHECK(recomputing.forward(pass, batch, second) == at_first);
  recomputing.backward(pass, batch, second, 1);
  CHECK((pass.gradients == gradients));

  zeroth::Model other{3};
  Gpt<Doubles> const dense{other, shape, Recompute::off};
  ReferencePass<double> pass_of_dense{other};
  auto third = dense.workspace();
  CHECK(dense.forward(pass_of_dense, batch, third) != at_first);  // otherwise nothing was masked
}

TEST_CASE("lists of keys have as many as the layout reads, and ranks have their own heads") {
  auto const layout = causal(
      {.mode = SparseMode::fixed, .block = 64, .different_layout_per_head = true, .num_different_global_patterns = 3},
      64 * 12);
  KeyBlocks const all{layout, 0, heads};
  for (std::int64_t head = 0; head < heads; ++head) {
    std::int64_t keys = 0;
    for (auto const& group : all.groups(head)) {
      keys += group.keys;
    }
    CHECK(keys == layout.count(head) * 64);
    KeyBlocks const own{layout, head, 1};
    CHECK(std::ranges::equal(own.groups(0), all.groups(head)));
  }
  CHECK(all.distinct_heads() == std::vector<std::int64_t>{0, 1, 2});
  CHECK(KeyBlocks{causal({}, 64), 0, heads}.distinct_heads() == std::vector<std::int64_t>{0});
  BlockLayout const both{{}, 1, 64};
  CHECK_THAT(zeroth::testing::thrown<zeroth::ContractError>([&] {
               return KeyBlocks{both, 0, 1};
             }),
             Catch::Contains("the layout is bidirectional"));
}
