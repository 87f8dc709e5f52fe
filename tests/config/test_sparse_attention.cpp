// SPDX-License-Identifier: Apache-2.0
/// zeroth.sparse_attention, as programs read it.
#include "config/config_support.hpp"
#include "config/keys.hpp"
#include "support/catch.hpp"
#include "zeroth/attention/block_layout.hpp"

namespace zeroth {
namespace {

std::optional<SparseAttention> layout_of(std::string const& keys) {
  return Config::from_json(fmt::format(R"({{"zeroth": {{"sparse_attention": {{{}}}}}}})", keys)).sparse_attention();
}

}  // namespace

TEST_CASE("A file without a layout of attention asks for none") {
  CHECK_FALSE(Config::from_json("{}").sparse_attention().has_value());
  CHECK_FALSE(layout_of("").has_value());
  CHECK_FALSE(layout_of(R"("mode": null)").has_value());
}

TEST_CASE("A mode alone has the defaults of SparseAttention") {
  for (auto const mode : sparse_modes) {
    CHECK(layout_of(fmt::format(R"("mode": "{}")", name_of(mode))) == SparseAttention{.mode = mode});
  }
}

TEST_CASE("Every key of a layout is read") {
  CHECK(layout_of(R"("mode": "fixed", "block": 64, "attention": "bidirectional", "different_layout_per_head": true,
                     "num_local_blocks": 8, "num_global_blocks": 2, "num_different_global_patterns": 4,
                     "horizontal_global_attention": true)") == SparseAttention{.mode = SparseMode::fixed,
                                                                               .block = 64,
                                                                               .different_layout_per_head = true,
                                                                               .num_local_blocks = 8,
                                                                               .num_global_blocks = 2,
                                                                               .num_different_global_patterns = 4,
                                                                               .horizontal_global_attention = true});
  CHECK(layout_of(R"("mode": "variable", "attention": "unidirectional", "num_random_blocks": 3,
                     "local_window_blocks": [2, 4], "global_block_indices": [1, 6],
                     "global_block_end_indices": [3, 8])") ==
        SparseAttention{.mode = SparseMode::variable,
                        .attention = AttentionDirection::unidirectional,
                        .num_random_blocks = 3,
                        .local_window_blocks = {2, 4},
                        .global_block_indices = {1, 6},
                        .global_block_end_indices = {3, 8}});
  CHECK(layout_of(R"("mode": "local_sliding_window", "num_sliding_window_blocks": 7)") ==
        SparseAttention{.mode = SparseMode::local_sliding_window, .num_sliding_window_blocks = 7});
}

TEST_CASE("A layout has the keys that SparseAttention has members") {
  int found = 0;
  for (auto const& key : config::keys) {
    std::string_view const section = "zeroth.sparse_attention.";
    if (key.path.starts_with(section)) {
      INFO(key.path);
      CHECK_NOTHROW(static_cast<void>(SparseAttention{}.uses(key.path.substr(section.size()))));
      ++found;
    }
  }
  CHECK(found == 13);
}

}  // namespace zeroth
