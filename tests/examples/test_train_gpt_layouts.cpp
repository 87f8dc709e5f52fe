// SPDX-License-Identifier: Apache-2.0
// The program with block-sparse attention: at all stages, in a pipeline, with tensor ranks, and the layouts that it
// rejects.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "program.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace gpt;
using Catch::Contains;

namespace {

constexpr char const* causal = R"("block": 4, "attention": "unidirectional")";

/// The steps' numbers of a run with `layout` as zeroth.sparse_attention; empty for none.
json numbers_with(Place const& place, std::string const& layout, int ranks, std::string const& options = "") {
  auto file = json::parse(stage_file(2));
  if (!layout.empty()) {
    file["zeroth"]["sparse_attention"] = json::parse("{" + layout + ", " + causal + "}");
  }
  place.write("stage.json", file.dump());
  auto const result = run(place.command(fmt::format(
      "--layers 3 --heads 4 --channels 16 --context 24 --steps 3 --untied-head --report report --ranks {} {}", ranks,
      options)));
  INFO(result.output);
  REQUIRE(result.ending.status == 0);
  auto const report = place.report();
  for (auto const& record : report) {
    if (record["record"] == "memory") {
      CHECK(record["planned"] == record["measured_peak"]);
    }
  }
  return numbers_of(report);
}

}  // namespace

TEST_CASE("train_gpt trains with the dense layout as without one, and otherwise with every other") {
  Place const place;
  auto const dense = numbers_with(place, "", 2);
  CHECK(numbers_with(place, R"("mode": "dense")", 2) == dense);
  std::vector<json> all{dense};
  for (auto const* const layout :
       {R"("mode": "fixed", "num_local_blocks": 2)",
        R"("mode": "fixed", "different_layout_per_head": true, "num_local_blocks": 2,
            "num_different_global_patterns": 2)",
        R"("mode": "variable", "num_random_blocks": 1, "local_window_blocks": [1], "global_block_indices": [1])",
        R"("mode": "bigbird", "different_layout_per_head": true, "num_random_blocks": 1)",
        R"("mode": "bslongformer", "num_sliding_window_blocks": 1, "global_block_indices": [2])",
        R"("mode": "local_sliding_window")"}) {
    INFO(layout);
    auto const numbers = numbers_with(place, layout, 2);
    CHECK(numbers[2][1].get<double>() < numbers[0][1].get<double>());
    for (auto const& other : all) {
      CHECK(numbers != other);
    }
    CHECK(numbers_with(place, layout, 2, "--set zero_optimization.stage=3 --recompute") == numbers);
    all.push_back(numbers);
  }
}

TEST_CASE("train_gpt's seed chooses random blocks") {
  Place const place;
  auto const* const layout = R"("mode": "bigbird", "num_random_blocks": 1, "num_sliding_window_blocks": 1)";
  place.write("stage.json", stage_file(2));
  auto const model =
      run(place.command("--layers 3 --heads 4 --channels 16 --context 24 --untied-head --steps 1 --ranks 1 "
                        "--save-initial initial"));
  REQUIRE(model.ending.status == 0);
  auto const numbers = [&](int seed) {
    return numbers_with(place, layout, 1, fmt::format("--init initial --order sequential --seed {}", seed));
  };
  CHECK(numbers(1) == numbers(1));
  CHECK(numbers(1) != numbers(2));
}

TEST_CASE("train_gpt's layouts have the same bits in a pipeline, and tensor ranks have their own heads'") {
  Place const place;
  auto const* const layout =
      R"("mode": "bigbird", "different_layout_per_head": true, "num_random_blocks": 1, "num_sliding_window_blocks": 1)";
  auto const one = numbers_with(place, layout, 2);
  CHECK(numbers_with(place, layout, 4, "--set zeroth.mesh.pipeline=2") == one);
  CHECK(numbers_with(place, layout, 4, "--set zeroth.mesh.pipeline=2 --set zeroth.pipeline.schedule=zb_h1") == one);
  for (std::string const more : {"", " --set zeroth.sequence_parallel=true"}) {
    INFO(more);
    auto const divided = numbers_with(place, layout, 4, "--set zeroth.mesh.tensor=2" + more);
    REQUIRE(divided.size() == 3);
    for (std::size_t step = 0; step < 3; ++step) {  // sums of products are divided at other places
      CHECK(divided[step][1].get<double>() == Approx(one[step][1].get<double>()).epsilon(1e-5));
      CHECK(divided[step][2].get<double>() == Approx(one[step][2].get<double>()).epsilon(1e-5));
    }
    CHECK(numbers_with(place, layout, 8, "--set zeroth.mesh.tensor=2 --set zeroth.mesh.pipeline=2" + more) == divided);
  }
}

TEST_CASE("train_gpt rejects layouts that it cannot train with, naming the key") {
  Place const place;
  struct Row {
    std::string layout, options, said;
  };
  for (auto const& [layout, options, said] :
       {Row{R"("mode": "fixed", "block": 4)", "",
            R"(zeroth.sparse_attention.attention: "bidirectional", but the attention of train_gpt is causal)"},
        Row{R"("mode": "fixed", "attention": "unidirectional", "block": 5)", "",
            "zeroth.sparse_attention.block: 5, which does not divide the context, 12; allowed: its divisors"},
        Row{R"("mode": "bigbird", "attention": "unidirectional", "block": 4, "num_global_blocks": 4)", "",
            "zeroth.sparse_attention.num_global_blocks: 4, but the context has 3 blocks; allowed: up to 3"},
        Row{R"("mode": "dense", "attention": "unidirectional", "block": 4)", "--device cuda",
            "zeroth.sparse_attention.block: 4, but GPU kernels read keys in groups of 16; allowed with --device cuda: "
            "multiples of 16"}}) {
    auto file = json::parse(stage_file(2));
    file["zeroth"]["sparse_attention"] = json::parse("{" + layout + "}");
    place.write("stage.json", file.dump());
    auto const result = run(place.command(small + "--steps 1 --ranks 1 " + options));
    INFO(result.output);
    CHECK(result.ending.status == 2);
    CHECK_THAT(result.output, Contains(said));
  }
}

TEST_CASE("train_gpt rejects what cuDNN's attention cannot have, before ranks start, with what is allowed") {
  Place const place;
  struct Row {
    std::string keys, options;
    std::vector<std::string> said;
  };
  std::string const bf16 = R"("bf16": {"enabled": true})";
  for (auto const& [keys, options, said] :
       {Row{R"("fp16": {"enabled": false})", "--context 16", {"the model computes in fp32; allowed: bf16 and fp16"}},
        Row{bf16 + R"(, "zeroth": {"sparse_attention": {"mode": "dense", "attention": "unidirectional"}})",
            "--context 16",
            {"zeroth.sparse_attention asks for a layout; allowed: a file without this section"}},
        Row{bf16,
            "--context 16 --channels 24 --heads 2",
            {"a head has 12 channels (--channels 24, --heads 2); allowed: multiples of 8"}}}) {
    auto file = json::parse(stage_file(2));
    file.update(json::parse("{" + keys + "}"));
    place.write("stage.json", file.dump());
    auto const result = run(place.command("--layers 1 --steps 1 --device cuda --attention cudnn " + options));
    INFO(result.output);
    CHECK(result.ending.status == 2);
    CHECK_THAT(result.output, Contains("stage.json: --attention cudnn: ") && Contains("or --attention own"));
    for (auto const& words : said) {
      CHECK_THAT(result.output, Contains(words));
    }
  }
}
