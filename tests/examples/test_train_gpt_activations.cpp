// SPDX-License-Identifier: Apache-2.0
// The choice and the storage of activations that train_gpt keeps do not change a bit.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "program.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace gpt;
using Catch::Contains;

namespace {

std::string const four_blocks =
    " --layers 4 --heads 2 --channels 16 --context 12 --dropout 0.2 --seed 5 --ranks 2 --steps 3 --report report ";

/// A stage file with `kept` as the object zeroth.activation_checkpointing.
std::string file_that_keeps(int stage, std::string const& kept, char const* more = "") {
  return fmt::format(R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
    "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-2, "weight_decay": 0.1}}}},
    "zeroth": {{"reduce_gradients": "every_micro_step", "activation_checkpointing": {{{}}}}},
    "zero_optimization": {{"stage": {}}} {}}})",
                     kept, stage, more);
}

Result run_with(Place const& place, std::string const& file, std::string const& options) {
  place.write("stage.json", file);
  return run(place.command(four_blocks + options));
}

}  // namespace

TEST_CASE("train_gpt gives the same numbers whichever blocks are recomputed, with dropout and accumulation") {
  Place const place;
  auto const* const more = GENERATE("", R"(, "bf16": {"enabled": true})");
  INFO(more);
  auto const numbers = [&](int stage, std::string const& kept, std::string const& options = {}) {
    auto const result = run_with(place, file_that_keeps(stage, kept, more), options);
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    CHECK(place.report()[0]["recompute"].get<bool>() == (!kept.empty() || !options.empty()));
    return numbers_of(place.report());
  };
  auto const expected = numbers(0, "");
  REQUIRE(expected.size() == 3);
  CHECK(expected[2][1].get<double>() < expected[0][1].get<double>());
  for (int const stage : {0, 3}) {
    INFO(stage);
    CHECK(numbers(stage, "", "--recompute") == expected);
    for (auto const* const units :
         {R"("all")", R"("every 2")", R"("every 3")", R"(["transformer.h.0"])",
          R"(["transformer.h.3", "transformer.h.1"])", R"("all", "offload": "cpu")",
          R"("all", "offload": "nvme", "nvme_path": "disk")", R"("every 2", "offload": "nvme", "nvme_path": "disk")",
          R"(["transformer.h.2"], "offload": "nvme", "nvme_path": "disk")"}) {
      INFO(units);
      CHECK(numbers(stage, fmt::format(R"("units": {})", units)) == expected);
    }
  }
}

TEST_CASE("train_gpt leaves nothing of the file of its activations, and reports what it waited for them") {
  Place const place;
  auto const kept = R"("units": "all", "offload": "nvme", "nvme_path": "disk")";
  auto const result = run_with(place, file_that_keeps(3, kept), "");
  INFO(result.output);
  REQUIRE(result.ending.status == 0);
  for (auto const& step : steps_of(place.report())) {
    CHECK(step["activation_ms"].get<double>() >= 0);
    CHECK(step["activation_ms"].get<double>() <= step["step_ms"].get<double>());
  }
  CHECK(std::filesystem::is_empty(place / "disk"));
  for (auto const& record : place.report()) {
    if (record["record"] == "memory") {
      CHECK(record["planned"] == record["measured_peak"]);
    }
  }
  auto const planned = run(place.command(four_blocks + "--plan"));
  INFO(planned.output);
  CHECK(planned.ending.status == 0);
  // A block's input has 2 samples of 12 tokens and 16 channels in fp32, which take 4096 bytes of a file.
  CHECK_THAT(planned.output, Contains("6 of 6 units are recomputed; the inputs of 4 wait in a file of 16384 B, with "
                                      "8192 B of memory"));
}

TEST_CASE("train_gpt with tensor ranks that divide rows has the same bits with activations on a disk") {
  Place const place;
  auto const numbers = [&](std::string const& kept) {
    auto const result = run_with(place, file_that_keeps(1, kept),
                                 "--set zeroth.mesh.tensor=2 --set zeroth.sequence_parallel=true "
                                 "--set zeroth.tied_gradients=apart");
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return numbers_of(place.report());
  };
  CHECK(numbers(R"("units": "all", "offload": "nvme", "nvme_path": "disk")") == numbers(""));
}

TEST_CASE("train_gpt in a pipeline gives the same numbers whichever blocks are recomputed") {
  Place const place;
  auto const numbers = [&](std::string const& kept, std::string const& options) {
    auto const result =
        run_with(place, file_that_keeps(1, kept),
                 "--untied-head --set zeroth.mesh.pipeline=2 --set zeroth.same_bits_at_any_ranks=true " + options);
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return numbers_of(place.report());
  };
  auto const expected = numbers("", "");
  CHECK(numbers(R"("units": ["transformer.h.0", "transformer.h.3"])", "") == expected);
  std::string const interleaved = "--set zeroth.pipeline.schedule=interleaved_1f1b --set zeroth.pipeline.chunks=2";
  CHECK(numbers(R"("units": "every 2")", interleaved) == expected);
}

TEST_CASE("train_gpt rejects activations that it cannot keep as asked") {
  Place const place;
  struct Row {
    std::string kept, options, said;
  };
  for (auto const& [kept, options, said] :
       {Row{R"("units": ["transformer.h.4"])", "",
            R"("transformer.h.4" is no unit of the model (did you mean "transformer.h.)"},
        Row{R"("units": ["h.2"])", "", R"(did you mean "transformer.h.2"?)"},
        Row{R"("units": ["transformer.h.1", "head"])", "",
            R"("head", but train_gpt recomputes only blocks; allowed: "transformer.h.0" to "transformer.h.3")"},
        Row{R"("units": ["embedding"])", "", R"("embedding", but train_gpt recomputes only blocks)"},
        Row{R"("units": ["transformer.h.1"])",
            "--untied-head --set zeroth.mesh.pipeline=2 --set zeroth.pipeline.schedule=zb_h1",
            "zeroth.activation_checkpointing.units"},
        Row{R"("units": "all", "offload": "nvme", "nvme_path": "disk")", "--untied-head --set zeroth.mesh.pipeline=2",
            "zeroth.activation_checkpointing.offload is \"nvme\", but zeroth.mesh.pipeline is 2"},
        Row{R"("units": "all", "offload": "nvme", "nvme_path": "/dev/null")", "",
            "zeroth.activation_checkpointing.nvme_path: cannot create a file in /dev/null"}}) {
    auto const result = run_with(place, file_that_keeps(0, kept), options);
    INFO(result.output);
    CHECK(result.ending.status == 2);
    CHECK_THAT(result.output, Contains(said));
  }
}
