// SPDX-License-Identifier: Apache-2.0
#include "zeroth/attention/block_layout.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr auto causal = AttentionDirection::unidirectional;
constexpr auto both = AttentionDirection::bidirectional;

std::string message_of(SparseAttention const& parameters, std::int64_t context = 128) {
  return thrown<ContractError>([&] { return BlockLayout{parameters, 2, context}; });
}

bool is_symmetric(BlockLayout const& layout) {
  for (std::int64_t head = 0; head < layout.heads(); ++head) {
    for (std::int64_t row = 0; row < layout.blocks(); ++row) {
      for (std::int64_t column = 0; column < row; ++column) {
        if (layout.has(head, row, column) != layout.has(head, column, row)) {
          return false;
        }
      }
    }
  }
  return true;
}

/// Checks what every layout must satisfy: diagonals, causality, and that its functions agree.
std::string broken_in(BlockLayout const& layout) {
  for (std::int64_t head = 0; head < layout.heads(); ++head) {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < layout.blocks(); ++row) {
      auto const columns = layout.columns(head, row);
      if (!std::ranges::is_sorted(columns) || !layout.has(head, row, row)) {
        return "columns that do not ascend, or no diagonal";
      }
      if (layout.causal() && columns.back() != row) {
        return "a later block";
      }
      std::vector<std::int64_t> read;
      for (std::int64_t column = 0; column < layout.blocks(); ++column) {
        if (layout.has(head, row, column)) {
          read.push_back(column);
        }
      }
      if (read != columns) {
        return "has() and columns()";
      }
      count += std::ssize(columns);
    }
    if (count != layout.count(head)) {
      return "count()";
    }
  }
  return {};
}

}  // namespace

TEST_CASE("a dense layout has all blocks of its direction") {
  for (auto const blocks : {1, 2, 63, 64, 65, 130}) {
    BlockLayout const all{{.mode = SparseMode::dense}, 3, 16 * blocks};
    CHECK(all.count(2) == blocks * blocks);
    CHECK(all.density() == 1);
    CHECK(is_symmetric(all));
    BlockLayout const past{{.mode = SparseMode::dense, .attention = causal}, 3, 16 * blocks};
    CHECK(past.count(2) == blocks * (blocks + 1) / 2);
    CHECK(past.density() == 1);
    CHECK(broken_in(past).empty());
    CHECK((all == past) == false);
  }
}

TEST_CASE("layouts of which rows and columns are equal are symmetric") {
  std::int64_t const context = 16 * 21;
  for (auto const mode : {SparseMode::bigbird, SparseMode::bslongformer, SparseMode::local_sliding_window}) {
    SparseAttention const parameters{
        .mode = mode, .num_global_blocks = 2, .num_sliding_window_blocks = 5, .global_block_indices = {3, 11}};
    CHECK(is_symmetric(BlockLayout{parameters, 2, context}));
  }
  for (auto const mode : {SparseMode::fixed, SparseMode::variable}) {
    SparseAttention parameters{.mode = mode, .horizontal_global_attention = true, .global_block_indices = {3, 11}};
    CHECK(is_symmetric(BlockLayout{parameters, 2, context}));
    parameters.horizontal_global_attention = false;
    CHECK_FALSE(is_symmetric(BlockLayout{parameters, 2, context}));
  }
}

TEST_CASE("a causal layout is the part of the bidirectional one up to the diagonal") {
  for (auto const mode : sparse_modes) {
    SparseAttention parameters{.mode = mode, .num_global_blocks = 2, .global_block_indices = {1, 7}};
    BlockLayout const whole{parameters, 1, 16 * 19};
    parameters.attention = causal;
    BlockLayout const past{parameters, 1, 16 * 19};
    for (std::int64_t row = 0; row < 19; ++row) {
      auto columns = whole.columns(0, row);
      std::erase_if(columns, [&](std::int64_t column) { return column > row; });
      CHECK(past.columns(0, row) == columns);
    }
  }
}

TEST_CASE("counts of blocks") {
  CHECK(BlockLayout{{.mode = SparseMode::local_sliding_window, .num_sliding_window_blocks = 5}, 1, 1600}.count(0) ==
        5 * 100 - 2 * (2 + 1));
  CHECK(BlockLayout{{.mode = SparseMode::local_sliding_window, .attention = causal}, 1, 1600}.count(0) == 199);
  // Windows of 4 of 100 blocks, and each window's last one for all later rows outside of it.
  CHECK(BlockLayout{{.attention = causal}, 1, 1600}.count(0) == 25 * 10 + 4 * (24 * 25 / 2));
}

TEST_CASE("random blocks are distinct, and as many as there are to choose from") {
  SparseAttention parameters{.mode = SparseMode::variable, .num_random_blocks = 6, .local_window_blocks = {1}};
  parameters.global_block_indices = {};
  for (auto const direction : {causal, both}) {
    parameters.attention = direction;
    BlockLayout const layout{parameters, 1, 16 * 90, 5};
    CHECK(broken_in(layout).empty());
    for (std::int64_t row = 0; row < 90; ++row) {
      auto const choices = direction == causal ? row + 1 : 90;
      auto const random = std::min<std::int64_t>(6, choices);
      auto const count = std::ssize(layout.columns(0, row));
      CHECK((count == random || count == random + 1));  // the diagonal may be one of them
    }
  }
  parameters.num_random_blocks = 90;
  CHECK(BlockLayout{parameters, 1, 16 * 90}.density() == 1);
}

TEST_CASE("random blocks depend on seed, head and row, and on nothing else") {
  SparseAttention parameters{.mode = SparseMode::bigbird, .attention = causal, .num_random_blocks = 3};
  parameters.different_layout_per_head = true;
  BlockLayout const layout{parameters, 4, 16 * 80, 7};
  CHECK(layout == BlockLayout{parameters, 4, 16 * 80, 7});
  CHECK_FALSE(layout == BlockLayout{parameters, 4, 16 * 80, 8});
  CHECK_FALSE(layout == BlockLayout{parameters, 4, 16 * 80, 7 + (std::uint64_t{1} << 32U)});
  BlockLayout const other{parameters, 6, 16 * 100, 7};  // more heads, and a longer context
  bool heads_differ = false;
  for (std::int64_t row = 0; row < 80; ++row) {
    CHECK(layout.columns(3, row) == other.columns(3, row));
    heads_differ = heads_differ || layout.columns(0, row) != layout.columns(1, row);
  }
  CHECK(heads_differ);
  parameters.different_layout_per_head = false;
  BlockLayout const shared{parameters, 4, 16 * 80, 7};
  for (std::int64_t row = 0; row < 80; ++row) {
    CHECK(shared.columns(3, row) == layout.columns(0, row));
  }
}

TEST_CASE("random blocks of a seed never change, because saved runs depend on them") {
  SparseAttention parameters{.mode = SparseMode::variable, .num_random_blocks = 3, .local_window_blocks = {1}};
  parameters.global_block_indices = {};
  BlockLayout const layout{parameters, 1, 16 * 100, 42};
  CHECK(layout.columns(0, 0) == std::vector<std::int64_t>{0, 7, 46, 60});
  CHECK(layout.columns(0, 70) == std::vector<std::int64_t>{60, 61, 70, 82});
}

TEST_CASE("random blocks are equally likely") {
  SparseAttention parameters{.mode = SparseMode::variable, .num_random_blocks = 4, .local_window_blocks = {1}};
  parameters.global_block_indices = {};
  constexpr std::int64_t blocks = 24;
  constexpr int seeds = 600;
  std::vector<int> chosen(blocks);
  for (int seed = 0; seed < seeds; ++seed) {
    BlockLayout const layout{parameters, 1, 16 * blocks, static_cast<std::uint64_t>(seed)};
    for (std::int64_t row = 0; row < blocks; ++row) {
      for (auto const column : layout.columns(0, row)) {
        chosen[static_cast<std::size_t>(column)] += column == row ? 0 : 1;
      }
    }
  }
  double const expected = 4.0 / blocks * seeds * (blocks - 1);
  double chi_square = 0;
  for (auto const count : chosen) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  CHECK(chi_square < 50);  // 23 degrees of freedom: 1 in 1,000 is above 50
}

TEST_CASE("mistakes in parameters name the member, its value, and what is allowed") {
  CHECK_THAT(message_of({.block = 48}), Contains("block is 48, which does not divide the context, 128; allowed: its"));
  CHECK_THAT(message_of({.block = 0}), Contains("block is 0; allowed: 1 or more"));
  CHECK_THAT(message_of({.mode = SparseMode::bigbird, .num_global_blocks = 9}),
             Contains("num_global_blocks is 9, but the context has 8 blocks; allowed: up to 8"));
  CHECK_THAT(message_of({.num_global_blocks = 3}), Contains("num_global_blocks is 3, which does not divide"));
  CHECK_THAT(message_of({.different_layout_per_head = true, .num_different_global_patterns = 5}),
             Contains("num_different_global_patterns is 5, but a window has 4 choices"));
  CHECK_THAT(message_of({.num_different_global_patterns = 2}), Contains("but different_layout_per_head is false"));
  CHECK_THAT(message_of({.attention = causal, .horizontal_global_attention = true}),
             Contains("horizontal_global_attention is true, but attention is \"unidirectional\""));
  CHECK_THAT(message_of({.mode = SparseMode::variable, .global_block_indices = {4, 2}}),
             Contains("global_block_indices is a list with 2 after 4; allowed: increasing numbers"));
  CHECK_THAT(message_of({.mode = SparseMode::bslongformer, .global_block_indices = {-1}}),
             Contains("global_block_indices is -1; allowed: 0 or more"));
  CHECK_THAT(message_of({.mode = SparseMode::variable, .global_block_end_indices = {1, 2}}),
             Contains("global_block_end_indices is a list of length 2, but global_block_indices has length 1"));
  CHECK_THAT(message_of({.mode = SparseMode::variable, .global_block_indices = {3}, .global_block_end_indices = {3}}),
             Contains("the end 3 of a range that begins at 3 (global_block_indices); allowed: more"));
  CHECK_THAT(message_of({.mode = SparseMode::variable, .local_window_blocks = {}}), Contains("an empty list"));
  CHECK_THAT(message_of({.mode = SparseMode::local_sliding_window, .num_sliding_window_blocks = 9}),
             Contains("num_sliding_window_blocks is 9, but the context has 8 blocks"));
  CHECK_THAT(message_of({.block = 1}, 70'000), Contains("into 70000 blocks; allowed: up to 65536 blocks"));
  auto const several = message_of({.block = 48, .num_local_blocks = 0});
  CHECK_THAT(several, Contains("block is 48") && Contains("num_local_blocks is 0; allowed: 1 or more"));
  // Members that the mode does not read are not mistakes.
  CHECK(message_of({.mode = SparseMode::dense, .num_local_blocks = 0, .global_block_indices = {4, 2}}).empty());
}

TEST_CASE("mistakes in calls name the call, the value, and what is allowed") {
  auto const of = [](auto const& call) { return thrown<ContractError>(call); };
  CHECK_THAT(of([] { return BlockLayout{{}, 0, 16}; }), Contains("of 0 heads; allowed: 1 or more"));
  CHECK_THAT(of([] { return BlockLayout{{}, 1, 0}; }), Contains("of a context of 0 tokens; allowed: 1 or more"));
  BlockLayout const layout{{}, 2, 128};
  CHECK_THAT(of([&] { return layout.has(2, 0, 0); }), Contains("the head is 2; allowed: 0 to 1"));
  CHECK_THAT(of([&] { return layout.has(0, 0, -1); }), Contains("the column is -1; allowed: 0 to 7"));
  CHECK_THAT(of([&] { return layout.columns(0, 8); }), Contains("the row is 8; allowed: 0 to 7"));
  CHECK_THAT(of([&] { return layout.count(-1); }), Contains("the head is -1"));
  CHECK_THAT(of([] { return SparseAttention{}.uses("num_locals"); }), Contains("uses(\"num_locals\")"));
}

TEST_CASE("any values make a layout or an error that names each mistake") {
  std::mt19937_64 random{std::random_device{}()};
  auto const seed = random();
  INFO("seed " << seed);
  random.seed(seed);
  auto const below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  auto const number = [&] {
    constexpr auto largest = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t odd[] = {-largest - 1, -1, 0, 1 << 20, largest - 1, largest};
    return below(12) == 0 ? odd[below(6)] : below(9);
  };
  auto const list = [&] {
    std::vector<std::int64_t> result;
    for (auto i = below(4); i > 0; --i) {
      result.push_back(number());
    }
    if (below(2) == 0) {
      std::ranges::sort(result);
    }
    return result;
  };
  int made = 0;
  constexpr int tries = 4000;
  for (int i = 0; i < tries; ++i) {
    SparseAttention p{.mode = sparse_modes[below(6)], .block = below(20) == 0 ? number() : 1 + below(4)};
    p.attention = below(2) == 0 ? causal : both;
    p.different_layout_per_head = below(2) == 0;
    p.horizontal_global_attention = below(4) == 0;
    for (auto* const each : {&p.num_local_blocks, &p.num_global_blocks, &p.num_random_blocks,
                             &p.num_sliding_window_blocks, &p.num_different_global_patterns}) {
      *each = below(2) == 0 ? 1 : number();
    }
    p.local_window_blocks = below(2) == 0 ? std::vector<std::int64_t>{2} : list();
    p.global_block_indices = list();
    p.global_block_end_indices = below(2) == 0 ? std::vector<std::int64_t>{} : list();
    auto const context = 12 * (1 + below(8));
    auto const problems = p.problems(context);
    auto const message = thrown<ContractError>([&] {
      BlockLayout const layout{p, 3, context, seed};
      CHECK(broken_in(layout).empty());
      CHECK(layout.density() > 0);
      CHECK(layout.density() <= 1);
    });
    made += message.empty() ? 1 : 0;
    CHECK(problems.empty() == message.empty());
    for (auto const& problem : problems) {
      CHECK_THAT(message, Contains(std::string{problem.field} + " is " + problem.why));
      CHECK(p.uses(problem.field));
    }
  }
  CHECK(made > tries / 10);
  CHECK(made < tries);
}

}  // namespace zeroth::testing
