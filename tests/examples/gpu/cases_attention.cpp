// SPDX-License-Identifier: Apache-2.0
/// Attention's kernels against the CPU's in double. Tolerances: see cases_layers.cpp; in 16 bits what backward reads of
/// the output was rounded as well, which doubles the error.

#include <cstdint>
#include <string>
#include <type_traits>

#include "examples/gpu/numbers.hpp"
#include "examples/reference_pass.hpp"
#include "gpu/bodies.hpp"

namespace gpt::gpu {
namespace {

using namespace gpt::testing;

struct Extents {
  int sequences, context, heads, width;
};

template <class T, template <class, int> class Kernels, int most_width>
void check(Extents const& e) {
  using Chosen = Kernels<T, most_width>;
  INFO(e.sequences << " sequences of " << e.context << ", " << e.heads << " heads of " << e.width);
  std::int64_t const channels = std::int64_t{e.heads} * e.width;
  std::int64_t const tokens = std::int64_t{e.sequences} * e.context;
  auto const scale = 1 / std::sqrt(static_cast<float>(e.width));
  auto const qkv = random_values<T>(tokens * 3 * channels, 1);
  auto const dy = random_values<T>(tokens * channels, 2);
  auto const multiply = cpu::eigen_matmul();
  Doubles on_cpu{*multiply};
  AttentionHeads const same_heads{.count = e.heads, .width = e.width, .context = e.context};
  auto const wide_qkv = on_host(matrix(qkv, 3 * channels));
  auto y = host_matrix<double>(tokens, channels), dqkv = host_matrix<double>(tokens, 3 * channels);
  auto log_sums = host_matrix<double>(tokens, e.heads);
  on_cpu.attend(same_heads, wide_qkv, log_sums, y);
  on_cpu.attend_backward(same_heads, wide_qkv, y, log_sums, on_host(matrix(dy, channels)), dqkv);

  Heads const heads{e.sequences, e.context, e.heads, e.width};
  OnMachine<T> const their_qkv{qkv}, their_dy{dy};
  OnMachine<T> const their_y{garbage<T>(tokens * channels)}, their_dqkv{garbage<T>(tokens * 3 * channels)};
  OnMachine<float> const their_log_sums{garbage<float>(tokens * e.heads)}, along{garbage<float>(tokens * e.heads)};
  run(typename Chosen::Forward{their_qkv.data(), heads, scale, their_y.data(), their_log_sums.data()});
  CHECK(error_of(their_y.values(), eigen(y)) < tolerance<T>);
  CHECK(error_of(their_log_sums.values(), eigen(log_sums)) < tolerance<float>);

  AttentionGiven<T> const given{their_qkv.data(), their_dy.data(), their_log_sums.data(), along.data(), heads, scale};
  if constexpr (Chosen::on_tensor_cores) {
    run(typename Chosen::BackwardQueries{given, their_y.data(), along.data(), their_dqkv.data()});
  } else {
    run(AttentionAlong<T>{their_y.data(), their_dy.data(), tokens * e.heads, e.width, along.data()});
    run(typename Chosen::BackwardQueries{given, their_dqkv.data()});
  }
  run(typename Chosen::BackwardKeys{given, their_dqkv.data()});
  CHECK(error_of(their_dqkv.values(), eigen(dqkv)) < 2 * tolerance<T>);
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

TEST_CASE("tokens are found behind 2^31 elements") {
  Heads const heads{1 << 20, 1 << 12, 3, 8};
  HeadTile const last{heads, std::int64_t{1 << 20} * 3 - 1, 1};
  std::int64_t const tokens = std::int64_t{1} << 32;
  CHECK(last.at(heads, (1 << 12) - 1, 72) == tokens * 72 - 72 + 16);
  CHECK(last.pair(heads, (1 << 12) - 1) == tokens * 3 - 1);
}

TEMPLATE_TEST_CASE("attention of large scores stays finite", "", (PlainAttention<float, 32>),
                   (TensorAttention<zeroth::bf16, 32>), (TensorAttention<zeroth::fp16, 32>)) {
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
  // A score of 10^4 is known to 1e-3 in fp32, and so is the share of its exponential.
  CHECK(error_of(their_y.values(), eigen(y)) < 5e-3 + (sizeof(T) == 2 ? tolerance<T> : 0));
}

TEMPLATE_TEST_CASE("what is not a number comes out of attention wherever it is seen", "", (PlainAttention<float, 32>),
                   (TensorAttention<zeroth::bf16, 32>), (TensorAttention<zeroth::fp16, 32>)) {
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
