// SPDX-License-Identifier: Apache-2.0
// The program on a mesh: stages of a pipeline, and tensor ranks.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "program.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace gpt;
using Catch::Contains;

TEST_CASE("train_gpt trains the same with and without a pipeline", "[rank threads]") {
  auto const* const more = GENERATE("", R"(, "bf16": {"enabled": true})");
  auto const* const head = GENERATE("--untied-head", "--set zeroth.tied_gradients=apart");
  if (zeroth::testing::sanitized && (*more == '\0') == std::string_view{head}.starts_with("--untied")) {
    return;  // each dtype and each head once
  }
  INFO(more << ' ' << head);
  Place const place;
  auto const numbers = [&](int ranks, int stages, std::string const& options) {
    place.write("stage.json", stage_file(2, more));
    auto const result = run(place.command(
        fmt::format("--layers 3 --heads 2 --channels 16 --context 12 --steps 3 --report report --ranks {} "
                    "--set zeroth.mesh.pipeline={} {} {}",
                    ranks, stages, head, options)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    auto const report = place.report();
    for (auto const& record : report) {
      if (record["record"] == "memory") {
        CHECK(record["planned"] == record["measured_peak"]);
      }
    }
    return numbers_of(report);
  };
  for (std::string const& math : zeroth::testing::sampled<std::string>({"auto", "eigen"}, 2)) {
    INFO(math);
    auto const with = "--math " + math;
    auto const expected = numbers(2, 1, with);
    REQUIRE(expected.size() == 3);
    CHECK(expected[2][1].get<double>() < expected[0][1].get<double>());
    CHECK(numbers(4, 2, with) == expected);
    CHECK(numbers(4, 2, with + " --recompute --set zero_optimization.stage=3") == expected);
    CHECK(numbers(4, 2, with + " --set zeroth.pipeline.schedule=interleaved_1f1b --set zeroth.pipeline.chunks=2") ==
          expected);
    CHECK(numbers(10, 5, with + " --set zeroth.pipeline.schedule=gpipe --set zero_optimization.stage=1") == expected);
    CHECK(numbers(4, 2, with + " --set zeroth.pipeline.schedule=zb_h1") == expected);
    CHECK(numbers(10, 5, with + " --set zeroth.pipeline.schedule=zb_h1 --set zero_optimization.stage=3") == expected);
  }
}

TEST_CASE("train_gpt rejects impossible pipelines with the reason") {
  Place const place;
  struct Row {
    std::string options, said;
  };
  for (auto const& [options, said] :
       {Row{"--ranks 2 --set zeroth.mesh.pipeline=2 --set zeroth.tied_gradients=together",
            "parameter \"transformer.wte.weight\" belongs to unit \"embedding\" in stage 0 of the pipeline and is tied "
            "to unit \"head\""},
        Row{"--ranks 3 --untied-head --set zeroth.mesh.pipeline=2",
            "zeroth.mesh.pipeline is 2, which does not divide 3"},
        Row{"--ranks 5 --untied-head --set zeroth.mesh.pipeline=5", "the model has 4 units that a"},
        Row{"--ranks 2 --untied-head --recompute --set zeroth.mesh.pipeline=2 --set zeroth.pipeline.schedule=zb_h1",
            "--recompute (or zeroth.activation_checkpointing.units, or activation_checkpointing.number_checkpoints) "
            "with a zeroth.pipeline.schedule"}}) {
    auto const result = run(place.command(small + "--steps 1 " + options));
    INFO(result.output);
    CHECK(result.ending.status == 2);
    CHECK(result.output.find(said) != std::string::npos);
  }
}

TEST_CASE("train_gpt divides its layers among tensor ranks, with the same bits at every stage and in a pipeline") {
  using zeroth::testing::sanitized;
  auto const* const more = sanitized || GENERATE(false, true) ? R"(, "bf16": {"enabled": true})" : "";
  bool const tied = sanitized || GENERATE(false, true);
  auto const* const options = tied ? "--dropout 0.2 --set zeroth.tied_gradients=apart" : "--untied-head";
  INFO(more << ' ' << options);
  Place const place;
  auto const numbers = [&](int ranks, int tensor, int stage, std::string const& rest) {
    place.write("stage.json", stage_file(stage, more));
    auto const result = run(place.command(fmt::format(
        "--layers 3 --heads 4 --channels 16 --context 12 --vocabulary 300 --steps 3 --report report --ranks {} "
        "--set zeroth.mesh.tensor={} --set zeroth.check=true {} {}",
        ranks, tensor, options, rest)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    for (auto const& record : place.report()) {
      if (record["record"] == "memory") {
        CHECK(record["planned"] == record["measured_peak"]);
      }
    }
    return numbers_of(place.report());
  };
  auto const one = numbers(2, 1, 0, "--save-initial one");
  REQUIRE(one.size() == 3);
  for (int const tensor : zeroth::testing::worlds({2, 4}, {2})) {
    INFO(tensor);
    auto const expected = numbers(2 * tensor, tensor, 0, "--save-initial initial --save-final final");
    CHECK((read_all(place / "initial/model.safetensors") == read_all(place / "one/model.safetensors")));
    for (std::size_t step = 0; step < 3; ++step) {  // sums of products are divided at other places
      auto const near = std::string{more}.empty() ? 1e-5 : 2e-2;
      CHECK(expected[step][1].get<double>() == Approx(one[step][1].get<double>()).epsilon(near));
      CHECK(expected[step][2].get<double>() == Approx(one[step][2].get<double>()).epsilon(near));
    }
    for (int const stage : {1, 2, 3}) {
      CHECK(numbers(2 * tensor, tensor, stage, "--save-final sharded") == expected);
      CHECK((read_all(place / "sharded/model.safetensors") == read_all(place / "final/model.safetensors")));
    }
    CHECK(numbers(2 * tensor, tensor, 3, "--recompute") == expected);
    CHECK(numbers(2 * tensor, tensor, 3, "--init initial") == expected);
    CHECK(numbers(4 * tensor, tensor, 3, "--set zeroth.mesh.pipeline=2") == expected);
    CHECK(numbers(4 * tensor, tensor, 2, "--set zeroth.mesh.pipeline=2 --set zeroth.pipeline.schedule=zb_h1") ==
          expected);

    // Sums of gradients of norms are divided at other places.
    std::string const sequence = "--set zeroth.sequence_parallel=true ";
    auto const by_rows = numbers(2 * tensor, tensor, 0, sequence + "--save-final final");
    for (std::size_t step = 0; step < 3; ++step) {
      auto const near = std::string{more}.empty() ? 1e-5 : 2e-2;
      CHECK(by_rows[step][1].get<double>() == Approx(one[step][1].get<double>()).epsilon(near));
      CHECK(by_rows[step][2].get<double>() == Approx(one[step][2].get<double>()).epsilon(near));
    }
    for (int const stage : {1, 3}) {
      CHECK(numbers(2 * tensor, tensor, stage, sequence + "--save-final sharded") == by_rows);
      CHECK((read_all(place / "sharded/model.safetensors") == read_all(place / "final/model.safetensors")));
    }
    CHECK(numbers(2 * tensor, tensor, 3, sequence + "--recompute") == by_rows);
    CHECK(numbers(4 * tensor, tensor, 3, sequence + "--set zeroth.mesh.pipeline=2") == by_rows);
    CHECK(numbers(4 * tensor, tensor, 2,
                  sequence + "--set zeroth.mesh.pipeline=2 --set zeroth.pipeline.schedule=zb_h1") == by_rows);
  }
}

TEST_CASE("a tensor rank of train_gpt holds its part of the vocabulary") {
  Place const place;
  auto const parameters = [&](int tensor, int vocabulary, std::string const& head) {
    auto const result = run(
        place.command(fmt::format("--layers 1 --heads 12 --channels 24 --context 12 --plan --ranks {} --vocabulary {} "
                                  "--set zeroth.mesh.tensor={} {}",
                                  tensor, vocabulary, tensor, head)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    std::string const before = "each of which has ";
    auto const at = result.output.find(before);
    REQUIRE(at != std::string::npos);
    return std::stol(result.output.substr(at + before.size()));
  };
  for (int const tensor : {2, 3, 4, 6}) {
    CAPTURE(tensor);
    CHECK(parameters(tensor, 49152, "") - parameters(tensor, 24576, "") == 24576 / tensor * 24);
    CHECK(parameters(tensor, 49152, "--untied-head") - parameters(tensor, 24576, "--untied-head") ==
          2 * 24576 / tensor * 24);
    // 24577 to 24576 + 128 words take as many rows, on all ranks together a multiple of 128.
    CHECK(parameters(tensor, 24577, "") == parameters(tensor, 24576 + 128, ""));
    CHECK(parameters(tensor, 24577, "") > parameters(tensor, 24576, ""));
  }
}

#ifdef ZEROTH_TOOL
TEST_CASE("zeroth plan matches the measured memory of a tensor rank of train_gpt") {
  Place const place;
  for (int const tensor : {2, 4}) {
    for (int const pipeline : {1, 2}) {
      auto const of_stage = 2 * tensor;
      auto const mesh = fmt::format("--ranks {} --set zeroth.mesh.tensor={} --set zeroth.mesh.pipeline={}",
                                    of_stage * pipeline, tensor, pipeline);
      INFO(mesh);
      auto const model = fmt::format("model-{}-{}", tensor, pipeline);
      auto const trained = run(
          place.command("--layers 3 --heads 4 --channels 16 --context 12 --vocabulary 300 --steps 1 --report report "
                        "--save-initial " +
                        model + " " + mesh));
      INFO(trained.output);
      REQUIRE(trained.ending.status == 0);
      auto const asked =
          fmt::format("{} plan --json --config stage.json --model {}/config.json {}", ZEROTH_TOOL, model, mesh);
      auto const planned = run({.command = words_of(asked), .folder = place.path(), .environment = {}});
      INFO(planned.output);
      REQUIRE(planned.ending.status == 0);
      auto const plan = json::parse(planned.output);
      int ranks = 0;
      for (auto const& record : place.report()) {
        if (record["record"] == "memory") {
          auto const stage = record["rank"].get<std::size_t>() / static_cast<std::size_t>(of_stage);
          CHECK(record["measured_peak"]["total"] ==
                (pipeline == 1 ? plan["stages"][3] : plan["pipeline"]["stages"][stage])["total"]);
          ++ranks;
        }
      }
      CHECK(ranks == of_stage * pipeline);
    }
  }
}
#endif

TEST_CASE("train_gpt resumes from a checkpoint of tensor ranks on any mesh") {
  auto const* const head =
      !zeroth::testing::sanitized && GENERATE(false, true) ? "--untied-head" : "--set zeroth.tied_gradients=apart";
  Place const place;
  auto const numbers = [&](int tensor, int pipeline, int stage, std::string const& rest) {
    place.write("stage.json", stage_file(stage));
    auto const result = run(place.command(
        fmt::format("--layers 3 --heads 4 --channels 16 --context 12 --vocabulary 300 --report report --ranks {} "
                    "--set zeroth.mesh.tensor={} --set zeroth.mesh.pipeline={} {} {}",
                    2 * tensor * pipeline, tensor, pipeline, head, rest)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return numbers_of(place.report());
  };
  auto const all = numbers(2, 1, 1, "--steps 4 --save-final all");
  for (int const from : {1, 2}) {
    for (int const to : {1, 2}) {
      auto const folder = fmt::format("--checkpoint saved-{}-{}", from, to);
      auto steps = numbers(2, from, 1, "--steps 2 " + folder);
      auto const rest = numbers(2, to, 3, "--steps 4 --resume auto --save-final resumed " + folder);
      steps.insert(steps.end(), rest.begin(), rest.end());
      CHECK(steps == all);
      CHECK((read_all(place / "resumed/model.safetensors") == read_all(place / "all/model.safetensors")));
    }
  }
  for (int const tensor : {1, 4}) {
    INFO(tensor);
    auto const folder = fmt::format("other{}", tensor);
    static_cast<void>(numbers(2, 1, 1, "--steps 2 --checkpoint " + folder));
    auto const rest = numbers(tensor, 1, 2, "--steps 4 --resume auto --checkpoint " + folder);
    REQUIRE(rest.size() == 2);
    for (std::size_t step = 0; step < 2; ++step) {
      CHECK(rest[step][1].get<double>() == Approx(all[step + 2][1].get<double>()).epsilon(1e-5));
    }
  }
}

TEST_CASE("train_gpt rejects impossible tensor ranks with the reason") {
  Place const place;
  auto const refused = [&](std::string const& options) {
    auto const result = run(place.command("--layers 2 --heads 6 --channels 18 --steps 1 " + options));
    CHECK(result.ending.status == 2);
    return result.output;
  };
  CHECK_THAT(
      refused("--ranks 4 --context 12 --set zeroth.mesh.tensor=4"),
      Contains("stage.json: zeroth.mesh.tensor is 4, which does not divide the model's 6 heads (--heads); nearest: "
               "3 or 6"));
  CHECK_THAT(
      refused("--ranks 3 --set zeroth.mesh.tensor=3 --context 10 --set zeroth.sequence_parallel=true"),
      Contains("zeroth.mesh.tensor with zeroth.sequence_parallel is 3, which does not divide the model's 10 tokens of "
               "a sequence (--context); nearest: 2 or 5"));
  CHECK_THAT(refused("--ranks 3 --context 12 --set zeroth.mesh.tensor=2"),
             Contains("zeroth.mesh.tensor is 2, which does not divide 3 ranks; allowed: 1, 3"));
}

TEST_CASE("the files of meshes in configs/ train") {
  auto const three_axes = GENERATE(false, true);
  Place const place;
  auto const file = std::filesystem::path{ZEROTH_SOURCE_DIR} / "configs" / (three_axes ? "3d.json" : "pipeline.json");
  place.write("stage.json", read_all(file));
  auto const result =
      run(place.command(small + fmt::format("--ranks {} --steps 30 --report report", three_axes ? 8 : 4)));
  INFO(result.output);
  REQUIRE(result.ending.status == 0);
  auto const steps = steps_of(place.report());
  REQUIRE(steps.size() == 30);
  CHECK(place.report().front()["batch"]["train"] == 2 * 8);  // two ranks along data, eight micro-steps
  CHECK(steps.back()["loss"].get<double>() < steps.front()["loss"].get<double>());
}
