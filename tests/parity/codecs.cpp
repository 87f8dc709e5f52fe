// SPDX-License-Identifier: Apache-2.0
/// With a codec for reductions stages 0 to 3 train the same, bit for bit; `exact` trains what no codec trains.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/delayed.hpp"
#include "support/sanitized.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

constexpr Types types_of_codecs[] = {fp32_types, bf16_types, fp16_types, bf16_masters, bf16_summed_in_fp32};

std::string file_of(char const* codec, Types const& types, int stage, char const* reduce, Movement const& move,
                    std::string const& more = "") {
  return file(types, stage, 2, reduce, move, fmt::format(R"(, "reduce_codec": "{}"{})", codec, more));
}

std::string with_zero_keys(std::string text, std::string const& keys) {
  std::string const before = R"("zero_optimization": {)";
  return text.insert(text.find(before) + before.size(), keys);
}

}  // namespace

TEST_CASE("stages are bit-equal by every codec") {
  auto const* const codec = GENERATE("exact", "int8", "int4");
  auto const world = GENERATE(1, 2, 3, 4);
  auto const types = GENERATE(from_range(std::begin(types_of_codecs), std::end(types_of_codecs)));
  auto const* const reduce = GENERATE("every_micro_step", "last_micro_step");
  static Sample of_bases{7, 3};
  if (of_bases.leaves_out()) {
    return;
  }
  INFO(fmt::format("{}, {} ranks, {}, {}", codec, world, types.name, reduce));
  auto const base = train(world, file_of(codec, types, 0, reduce, movements[1]));
  REQUIRE(base.reports.size() == 4);
  REQUIRE(std::isfinite(base.reports.back().loss));
  auto const plain = bits_of(train(world, file_of("none", types, 0, reduce, movements[1])));
  CHECK((bits_of(base) == plain) == (codec == std::string{"exact"}));
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& move = movements[(stage + world) % 4];
    INFO(fmt::format("stage {}, bucket {}, overlap {}", stage, move.bucket, move.overlap));
    TrainOptions options;
    options.waits = stage == 3;
    REQUIRE(bits_of(train(world, file_of(codec, types, stage, reduce, move, R"(, "poison": true)"), options,
                          stage == 3 ? Wrap{delayed} : Wrap{})) == bits_of(base));
  }
}

TEST_CASE("groups, and sums in two levels, are bit-equal by every codec") {
  auto const* const codec = GENERATE("exact", "int8", "int4");
  auto const types = GENERATE(fp32_types, bf16_types);
  for (auto const* const levels : {"", R"(, "two_level_sums": true, "group_size": 2)"}) {
    auto const base = bits_of(train(4, file_of(codec, types, 0, "every_micro_step", movements[1], levels)));
    for (auto const* const keys : {R"("zero_hpz_partition_size": 2, )", R"("mics_shard_size": 2, )"}) {
      static Sample sample{3, 2};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{}, {}{}{}", codec, types.name, levels, keys));
      auto const text = file_of(codec, types, 3, "every_micro_step", movements[2], levels);
      REQUIRE(bits_of(train(4, with_zero_keys(text, keys))) == base);
    }
  }
}

TEST_CASE("DeepSpeed's zero_quantized_gradients is int4") {
  auto const text = [](char const* key, char const* codec) {
    return with_zero_keys(file(bf16_types, 3, 2, "every_micro_step", movements[0], codec), key);
  };
  auto const theirs = train(2, text(R"("zero_quantized_gradients": true, )", ""));
  auto const ours = train(2, text("", R"(, "reduce_codec": "int4")"));
  CHECK(bits_of(theirs) == bits_of(ours));
}

}  // namespace zeroth::testing
