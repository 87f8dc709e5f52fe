// SPDX-License-Identifier: Apache-2.0
/// Attention's kernels against the CPU's in double. Tolerances: see cases_layers.cpp; in 16 bits what backward reads of
/// the output was rounded as well, which doubles the error.

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "examples/gpu/numbers.hpp"
#include "examples/reference_pass.hpp"
#include "gpu/attention_lists.hpp"
#include "gpu/bodies.hpp"
#include "support/sanitized.hpp"

namespace gpt::gpu {
namespace {

using namespace gpt::testing;
using zeroth::BlockLayout;
using zeroth::SparseAttention;
using zeroth::SparseMode;

struct Extents {
  int sequences, context, heads, width;
};

template <class T>
struct Inputs {
  explicit Inputs(Extents const& e)
      : channels{std::int64_t{e.heads} * e.width},
        tokens{std::int64_t{e.sequences} * e.context},
        scale{1 / std::sqrt(static_cast<float>(e.width))},
        qkv{random_values<T>(tokens * 3 * channels, 1)},
        dy{random_values<T>(tokens * channels, 2)} {}
  std::int64_t channels, tokens;
  float scale;
  std::vector<T> qkv, dy;
};

/// The results of attention.
template <class T>
struct Results {
  std::vector<T> y, dqkv;
  std::vector<float> log_sums;
};

/// The lists of one kernel in its memory, or none.
template <class Kernel, class Reads>
class Lists {
 public:
  template <class Of>
  Lists(KeyBlocks const* blocks, std::int64_t heads, Of const& of) {
    if constexpr (Reads::has_lists) {
      auto const packed = pack(*blocks, heads, of(*blocks, Kernel::own_rows, Kernel::visited_rows));
      memory_.emplace(packed.words);
      reads = reads_of(packed, memory_->data());
    }
  }
  Reads reads{};

 private:
  std::optional<OnMachine<std::int32_t>> memory_;
};

/// `blocks`: null without lists.
template <class T, template <class, int, class> class Kernels, int most_width, class Reads>
Results<T> results_of(Extents const& e, KeyBlocks const* blocks) {
  using Chosen = Kernels<T, most_width, Reads>;
  Inputs<T> const in{e};
  auto const [channels, tokens] = std::pair{in.channels, in.tokens};
  Lists<typename Chosen::Forward, Reads> const forward{blocks, e.heads, keys_of_queries};
  Lists<typename Chosen::BackwardQueries, Reads> const queries{blocks, e.heads, keys_of_queries};
  Lists<typename Chosen::BackwardKeys, Reads> const keys{blocks, e.heads, queries_of_keys};
  Heads const heads{e.sequences, e.context, e.heads, e.width};
  OnMachine<T> const qkv{in.qkv}, dy{in.dy};
  OnMachine<T> const y{garbage<T>(tokens * channels)}, dqkv{garbage<T>(tokens * 3 * channels)};
  OnMachine<float> const log_sums{garbage<float>(tokens * e.heads)}, along{garbage<float>(tokens * e.heads)};
  run(typename Chosen::Forward{qkv.data(), heads, in.scale, y.data(), log_sums.data(), forward.reads});
  AttentionGiven<T> const given{qkv.data(), dy.data(), log_sums.data(), along.data(), heads, in.scale};
  if constexpr (Chosen::on_tensor_cores) {
    run(typename Chosen::BackwardQueries{given, y.data(), along.data(), dqkv.data(), queries.reads});
  } else {
    run(AttentionAlong<T>{y.data(), dy.data(), tokens * e.heads, e.width, along.data()});
    run(typename Chosen::BackwardQueries{given, dqkv.data(), queries.reads});
  }
  run(typename Chosen::BackwardKeys{given, dqkv.data(), keys.reads});
  return {y.values(), dqkv.values(), log_sums.values()};
}

template <class T>
void check_against_cpu(Extents const& e, KeyBlocks const* blocks, Results<T> const& results) {
  Inputs<T> const in{e};
  auto const multiply = cpu::eigen_matmul();
  Doubles on_cpu{*multiply};
  AttentionHeads const heads{.count = e.heads, .width = e.width, .context = e.context, .key_blocks = blocks};
  auto const qkv = on_host(matrix(in.qkv, 3 * in.channels));
  auto y = host_matrix<double>(in.tokens, in.channels), dqkv = host_matrix<double>(in.tokens, 3 * in.channels);
  auto log_sums = host_matrix<double>(in.tokens, e.heads);
  on_cpu.attend(heads, qkv, log_sums, y);
  on_cpu.attend_backward(heads, qkv, y, log_sums, on_host(matrix(in.dy, in.channels)), dqkv);
  CHECK(error_of(results.y, eigen(y)) < tolerance<T>);
  CHECK(error_of(results.log_sums, eigen(log_sums)) < tolerance<float>);
  CHECK(error_of(results.dqkv, eigen(dqkv)) < 2 * tolerance<T>);
}

template <class T, template <class, int, class> class Kernels, int most_width>
void check(Extents const& e) {
  INFO(e.sequences << " sequences of " << e.context << ", " << e.heads << " heads of " << e.width);
  check_against_cpu<T>(e, nullptr, results_of<T, Kernels, most_width, ReadsAll>(e, nullptr));
}

/// Layouts with blocks of 16 to 64 tokens: cells, parts of tiles and whole ones.
std::vector<std::pair<std::string, SparseAttention>> layouts() {
  return {
      {"fixed", {.mode = SparseMode::fixed, .block = 16, .num_local_blocks = 3}},
      {"fixed, by head",
       {.mode = SparseMode::fixed,
        .block = 32,
        .different_layout_per_head = true,
        .num_local_blocks = 2,
        .num_different_global_patterns = 2}},
      {"variable",
       {.mode = SparseMode::variable,
        .block = 48,
        .num_random_blocks = 1,
        .local_window_blocks = {1},
        .global_block_indices = {1}}},
      {"bigbird",
       {.mode = SparseMode::bigbird, .block = 16, .different_layout_per_head = true, .num_random_blocks = 2}},
      {"sliding", {.mode = SparseMode::local_sliding_window, .block = 64}},
  };
}

BlockLayout layout_of(SparseAttention parameters, Extents const& e) {
  parameters.attention = zeroth::AttentionDirection::unidirectional;
  return {parameters, e.heads, e.context, 3};
}

/// Checks the layouts that `e.context` allows, and the dense one.
template <class T, template <class, int, class> class Kernels, int most_width>
void check_layouts(Extents const& e) {
  INFO(e.sequences << " sequences of " << e.context << ", " << e.heads << " heads of " << e.width);
  for (auto const& [name, parameters] : layouts()) {
    if (!parameters.problems(e.context).empty()) {
      continue;
    }
    INFO(name);
    KeyBlocks const blocks{layout_of(parameters, e), 0, e.heads};
    check_against_cpu<T>(e, &blocks, results_of<T, Kernels, most_width, ReadsListed>(e, &blocks));
  }
  KeyBlocks const dense{layout_of({.mode = SparseMode::dense, .block = 16}, e), 0, e.heads};
  auto const with = results_of<T, Kernels, most_width, ReadsListed>(e, &dense);
  auto const without = results_of<T, Kernels, most_width, ReadsAll>(e, nullptr);
  CHECK(zeroth::testing::same_bits(with.y, without.y));
  CHECK(zeroth::testing::same_bits(with.dqkv, without.dqkv));
  CHECK(zeroth::testing::same_bits(with.log_sums, without.log_sums));
}

}  // namespace

TEST_CASE("attention is the CPU's, forward and backward, whatever the tiles hold") {
  every_way();
  check<float, PlainAttention, 32>({1, 1, 1, 1});
  check<float, PlainAttention, 32>({2, 33, 2, 24});
  check<float, PlainAttention, 32>({1, 131, 1, 32});
  check<float, PlainAttention, 64>({2, 64, 1, 64});  // whole tiles
  check<float, PlainAttention, 64>({1, 97, 2, 40});  // and parts of them
  check<float, PlainAttention, 64>({3, 65, 1, 64});
  check<float, PlainAttention, 128>({1, 70, 2, 80});
  check<float, PlainAttention, 128>({2, 17, 1, 128});
}

TEMPLATE_TEST_CASE("attention in 16 bits is the CPU's", "", zeroth::bf16, zeroth::fp16) {
  every_way();
  check<TestType, PlainAttention, 32>({2, 45, 2, 25});
  check<TestType, PlainAttention, 64>({1, 70, 2, 63});
  check<TestType, PlainAttention, 128>({1, 37, 1, 97});
}

TEMPLATE_TEST_CASE("attention on tensor cores is the CPU's, whatever the tiles hold", "", zeroth::bf16, zeroth::fp16) {
  every_way();
  check<TestType, TensorAttention, 32>({1, 1, 1, 8});
  check<TestType, TensorAttention, 32>({2, 45, 2, 24});
  check<TestType, TensorAttention, 32>({1, 300, 1, 32});  // more than a block's queries
  check<TestType, TensorAttention, 64>({1, 128, 1, 64});  // whole tiles
  check<TestType, TensorAttention, 64>({2, 129, 1, 64});  // and parts of them
  check<TestType, TensorAttention, 64>({1, 65, 3, 40});
  check<TestType, TensorAttention, 128>({1, 33, 2, 72});
  check<TestType, TensorAttention, 128>({2, 70, 1, 128});
}

TEST_CASE("attention with layouts is the CPU's, and the dense one changes no bit") {
  every_way();
  check_layouts<float, PlainAttention, 32>({2, 96, 2, 24});
  check_layouts<float, PlainAttention, 64>({1, 192, 3, 40});
  check_layouts<float, PlainAttention, 64>({1, 16, 1, 64});  // less than a tile
  check_layouts<float, PlainAttention, 128>({1, 144, 2, 72});
}

TEMPLATE_TEST_CASE("attention with layouts in 16 bits is the CPU's, and the dense one changes no bit", "", zeroth::bf16,
                   zeroth::fp16) {
  every_way();
  check_layouts<TestType, PlainAttention, 32>({1, 96, 2, 25});
  check_layouts<TestType, PlainAttention, 64>({1, 64, 2, 63});
  check_layouts<TestType, PlainAttention, 128>({1, 48, 1, 97});
}

TEMPLATE_TEST_CASE("attention with layouts on tensor cores is the CPU's, and the dense one changes no bit", "",
                   zeroth::bf16, zeroth::fp16) {
  every_way();
  check_layouts<TestType, TensorAttention, 32>({2, 192, 2, 24});
  check_layouts<TestType, TensorAttention, 32>({1, 16, 1, 8});  // less than a tile
  if (!zeroth::testing::sanitized) {                            // the same code as below, with more tiles
    check_layouts<TestType, TensorAttention, 64>({1, 384, 2, 64});
  }
  check_layouts<TestType, TensorAttention, 64>({1, 240, 3, 40});
  check_layouts<TestType, TensorAttention, 128>({1, 192, 2, 72});
}

TEST_CASE("tokens are found behind 2^31 elements") {
  Heads const heads{1 << 20, 1 << 12, 3, 8};
  HeadTile const last{heads, std::int64_t{1 << 20} * 3 - 1, 1};
  std::int64_t const tokens = std::int64_t{1} << 32;
  CHECK(last.at(heads, (1 << 12) - 1, 72) == tokens * 72 - 72 + 16);
  CHECK(last.pair(heads, (1 << 12) - 1) == tokens * 3 - 1);
}

TEMPLATE_TEST_CASE("attention of large scores stays finite", "", (PlainAttention<float, 32, ReadsAll>),
                   (TensorAttention<zeroth::bf16, 32, ReadsAll>), (TensorAttention<zeroth::fp16, 32, ReadsAll>)) {
  using T = std::remove_pointer_t<decltype(typename TestType::Forward{}.y)>;
  every_way();
  std::int64_t const context = 70, width = 24;
  auto qkv = random_values<T>(context * 3 * width, 1);
  for (auto& value : qkv) {
    value = zeroth::from_float<T>(40 * zeroth::to_float(value));  // scores of several thousand
  }
  auto const multiply = cpu::eigen_matmul();
  auto y = host_matrix<double>(context, width), log_sums = host_matrix<double>(context, 1);
  Doubles{*multiply}.attend({.count = 1, .width = width, .context = context}, on_host(matrix(qkv, 3 * width)), log_sums,
                            y);
  OnMachine<T> const their_qkv{qkv}, their_y{garbage<T>(context * width)};
  OnMachine<float> const their_log_sums{garbage<float>(context)};
  run(typename TestType::Forward{
      their_qkv.data(), {1, context, 1, width}, 1 / std::sqrt(24.0F), their_y.data(), their_log_sums.data()});
  // A score of 10^4 has an error of 1e-3 in fp32, and so has its exponential's part of the sum.
  CHECK(error_of(their_y.values(), eigen(y)) < 5e-3 + (sizeof(T) == 2 ? tolerance<T> : 0));
}

TEMPLATE_TEST_CASE("what is not a number comes out of attention wherever it is seen", "",
                   (PlainAttention<float, 32, ReadsAll>), (TensorAttention<zeroth::bf16, 32, ReadsAll>),
                   (TensorAttention<zeroth::fp16, 32, ReadsAll>)) {
  using T = std::remove_pointer_t<decltype(typename TestType::Forward{}.y)>;
  every_way();
  std::int64_t const context = 90, width = 16, broken = 41;
  for (int const part : {0, 1, 2}) {
    INFO("in a " << (part == 0 ? "query" : part == 1 ? "key" : "value"));
    auto qkv = random_values<T>(context * 3 * width, 1);
    qkv[static_cast<std::size_t>((broken * 3 + part) * width + 5)] = zeroth::from_float<T>(std::nanf(""));
    OnMachine<T> const their_qkv{qkv}, their_y{garbage<T>(context * width)};
    OnMachine<float> const their_log_sums{garbage<float>(context)};
    run(typename TestType::Forward{
        their_qkv.data(), {1, context, 1, width}, 0.25F, their_y.data(), their_log_sums.data()});
    auto const y = matrix(their_y.values(), width);
    if (part < 2) {  // a value that counts for nothing is still multiplied by 0
      CHECK(y.topRows(broken).allFinite());
    }
    for (auto row = broken; row < context; ++row) {
      CHECK(y.row(row).allFinite() == (part == 0 && row > broken));
    }
  }
}

}  // namespace gpt::gpu
