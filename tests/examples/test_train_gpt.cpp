// SPDX-License-Identifier: Apache-2.0
// The program itself, from the command line to the files it leaves.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "program.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace gpt;
using Catch::Contains;

namespace {

#ifdef TRAIN_GPT_HAS_CUDA
constexpr bool has_cuda = true;
#else
constexpr bool has_cuda = false;
#endif

}  // namespace

TEST_CASE("train_gpt reports the run, its steps and the memory of every rank") {
  Place const place;
  auto const result = run(place.command(small + "--ranks 2 --steps 3 --seed 9 --report report"));
  INFO(result.output);
  REQUIRE(result.ending.status == 0);
  CHECK_THAT(result.output,
             Contains("step 1/3  loss 5.") && Contains("step 3/3") && Contains("tokens/s") && Contains("MiB per rank"));
  auto const report = place.report();
  REQUIRE(report.size() == 6);

  CHECK(report[0]["record"] == "run");
  CHECK(report[0]["world"] == 2);
  CHECK(report[0]["device"] == "cpu");
  CHECK(report[0]["share_devices"] == false);
  CHECK(report[0]["tf32"] == false);
  CHECK(report[0]["batch"] == json({{"train", 8}, {"micro", 2}, {"accumulation", 2}}));
  CHECK(report[0]["model"]["channels"] == 16);
  CHECK(report[0]["config"]["zero_optimization.stage"]["value"] == 3);
  for (std::size_t i = 1; i <= 3; ++i) {
    auto const& step = report[i];
    CHECK(step["record"] == "step");
    CHECK(step["step"] == i);
    CHECK(step["loss"].get<double>() > 1);
    CHECK(step["loss"].get<double>() < 7);
    CHECK(step["grad_norm"].get<double>() > 0);
    CHECK(step["lr"].get<float>() == 1e-2F);
    CHECK(step["loss_scale"] == 1);
    CHECK(step["skipped"] == false);
    CHECK(step["exposed_comm_ms"].get<double>() >= 0);
    CHECK(step["tokens_per_s"].get<double>() * step["step_ms"].get<double>() == Approx(8 * 12 * 1e3));
  }
  CHECK(report[3]["loss"].get<double>() < report[1]["loss"].get<double>());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto const& memory = report[4 + rank];
    CHECK(memory["record"] == "memory");
    CHECK(memory["rank"] == rank);
    CHECK(memory["planned"] == memory["measured_peak"]);
    CHECK(memory["planned"]["total"].get<std::int64_t>() > 0);
  }
}

TEST_CASE("an engine warns once if stage3_max_live_parameters leaves no prefetch") {
  Place const place;
  auto const said = [&](char const* live) {
    auto text = stage_file(3);
    text.insert(text.find(R"("stage")"), std::string{R"("stage3_max_live_parameters": )"} + live + ", ");
    place.write("stage.json", text);
    auto const result = run(place.command(small + "--ranks 2 --steps 2"));
    INFO(result.output);
    CHECK(result.ending.status == 0);
    return zeroth::testing::count_of(result.output, "are not prefetched: their unit and the previous one");
  };
  CHECK(said("1") == 1);
  CHECK(said("1e9") == 0);
}

TEST_CASE("train_gpt writes a trace of all ranks", "[rank threads]") {
  Place const place;
  for (int const steps : {1, 9}) {
    auto const result = run(place.command(small + "--ranks 3 --trace trace.json --steps " + std::to_string(steps)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    auto const trace = json::parse(read_all(place / "trace.json"));
    for (int rank = 0; rank < 3; ++rank) {
      auto const count = [&](char const* what) {
        return std::ranges::count_if(trace["traceEvents"], [&](json const& event) {
          return event["ph"] == "X" && event["pid"] == rank && event["cat"] == what;
        });
      };
      auto const traced = std::min(steps, 5);
      CHECK(count("decide") == traced);
      CHECK(count("forward") == traced * 2 * 4);  // two micro-steps; two blocks, embedding and head
      CHECK(count("backward") == traced * 2 * 4);
      CHECK(count("gather") > 0);
      CHECK(count("update") > 0);
    }
  }
}

TEST_CASE("train_gpt gives the same numbers at every stage, kept or recomputed") {
  struct Row {
    char const *name, *more;
  };
  auto const row = GENERATE(Row{"fp32", ""}, Row{"bf16", R"(, "bf16": {"enabled": true})"},
                            Row{"fp16", R"(, "fp16": {"enabled": true, "initial_scale_power": 8})"},
                            Row{"bf16 with fp32 gradients",
                                R"(, "bf16": {"enabled": true}, "zeroth": {"gradient_dtype": "fp32",
                                    "reduce_gradients": "every_micro_step"})"});
  INFO(row.name);
  Place const place;
  auto const numbers = [&](int stage, std::string const& more) {
    auto text = stage_file(stage, row.more);
    if (std::string{row.more}.find("zeroth") != std::string::npos) {  // replaces the existing section
      text.erase(text.find(R"("zeroth")"), text.find(R"("optimizer")") - text.find(R"("zeroth")"));
    }
    place.write("stage.json", text);
    auto const result = run(place.command(small + "--steps 3 --report report " + more));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return numbers_of(place.report());
  };
  for (std::string const& math : zeroth::testing::sampled<std::string>({"auto", "eigen"}, 2)) {
    INFO(math);
    auto const with = "--ranks 2 --math " + math;
    auto const expected = numbers(0, with);
    REQUIRE(expected.size() == 3);
    CHECK(expected[2][1].get<double>() < expected[0][1].get<double>());
    CHECK(numbers(1, with) == expected);
    CHECK(numbers(2, with) == expected);
    CHECK(numbers(3, with) == expected);
    CHECK(numbers(3, with + " --recompute") == expected);
  }
}

namespace {

/// 12 samples a step, whatever the number of ranks.
std::string file_for_any_ranks(int stage, char const* more) {
  return fmt::format(R"({{"train_batch_size": 12, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
    "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-2}}}}, "zero_optimization": {{"stage": {}}},
    "zeroth": {{"same_bits_at_any_ranks": true}} {}}})",
                     stage, more);
}

}  // namespace

TEST_CASE(
    "train_gpt has the same dropout on any number of ranks, at every stage, in a pipeline, recomputed and resumed") {
  auto const* const more = zeroth::testing::sanitized || GENERATE(false, true) ? R"(, "bf16": {"enabled": true})" : "";
  INFO(more);
  Place const place;
  auto const numbers = [&](int ranks, int stage, std::string const& options) {
    place.write("stage.json", file_for_any_ranks(stage, more));
    auto const result =
        run(place.command(small + fmt::format("--untied-head --seed 5 --report report --ranks {} {}", ranks, options)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return numbers_of(place.report());
  };
  std::string const dropout = "--steps 4 --dropout 0.2 ";
  auto const expected = numbers(1, 0, dropout + "--save-final one");
  REQUIRE(expected.size() == 4);
  CHECK(expected[3][1].get<double>() < expected[0][1].get<double>());
  CHECK(numbers(1, 0, "--steps 4") != expected);
  CHECK(numbers(1, 0, "--steps 4 --dropout 0.1") != expected);
  CHECK(numbers(1, 0, "--steps 4 --dropout 0") == numbers(1, 0, "--steps 4"));
  CHECK(numbers(2, 1, dropout) == expected);
  CHECK(numbers(3, 2, dropout + "--recompute") == expected);
  CHECK(numbers(4, 3, dropout + "--save-final four") == expected);
  CHECK((read_all(place / "one/model.safetensors") == read_all(place / "four/model.safetensors")));
  CHECK(numbers(2, 3, dropout + "--set zeroth.replay_every=1") == expected);
  std::string const pipeline = "--set zeroth.mesh.pipeline=2 ";
  CHECK(numbers(2, 0, dropout + pipeline) == expected);
  CHECK(numbers(4, 2, dropout + pipeline + "--recompute") == expected);
  CHECK(numbers(2, 3,
                dropout + pipeline +
                    "--set zeroth.pipeline.schedule=interleaved_1f1b "
                    "--set zeroth.pipeline.chunks=2") == expected);
  CHECK(numbers(2, 3, dropout + pipeline + "--set zeroth.pipeline.schedule=zb_h1") == expected);

  auto all = numbers(3, 1, "--steps 2 --dropout 0.2 --checkpoint saved");
  auto const rest = numbers(4, 3, dropout + "--checkpoint saved --resume auto --save-final resumed " + pipeline);
  all.insert(all.end(), rest.begin(), rest.end());
  CHECK(all == expected);
  CHECK((read_all(place / "one/model.safetensors") == read_all(place / "resumed/model.safetensors")));
}

TEST_CASE("number_checkpoints of the stage file means --recompute") {
  Place const place;
  auto const recomputes = [&](char const* more) {
    place.write("stage.json", stage_file(2, more));
    auto const result = run(place.command(small + "--ranks 2 --steps 2 --report report"));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return std::pair{place.report()[0]["recompute"].get<bool>(), numbers_of(place.report())};
  };
  auto const kept = recomputes("");
  auto const recomputed =
      recomputes(R"(, "activation_checkpointing": {"number_checkpoints": 2, "cpu_checkpointing": true})");
  CHECK_FALSE(kept.first);
  CHECK(recomputed.first);
  CHECK(kept.second == recomputed.second);
}

TEST_CASE("a DeepSpeed file with open values runs with flags, and without them the error lists what is missing") {
  Place const place;
  place.write("stage.json", R"({
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "steps_per_print": 2, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "overlap_comm": true, "sub_group_size": 1e9, "stage3_max_reuse_distance": 5e8,
                          "offload_optimizer": {"device": "cpu", "pin_memory": true}},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}}})");
  auto const missing = run(place.command(small + "--ranks 2 --steps 2"));
  CHECK(missing.ending.status == 2);
  CHECK_THAT(missing.output,
             Contains("5 required values are not set") && Contains("optimizer.params.lr (line 6, \"auto\")"));
  auto const flags = " --micro-batch 2 --accumulation 2 --lr 1e-2 --dtype bf16 --warmup 3 --weight-decay 0.1 ";
  auto const result = run(place.command(small + "--ranks 2 --steps 4 --report report --verbose" + flags));
  INFO(result.output);
  REQUIRE(result.ending.status == 0);
  CHECK_THAT(result.output, Contains("1 key without effect here: zero_optimization.stage3_max_reuse_distance") &&
                                Contains("zero_optimization.stage3_max_reuse_distance (line 4): 5e8: ") &&
                                Contains("step 4: loss "));
  auto const steps = steps_of(place.report());
  CHECK(steps.back()["lr"].get<float>() > 0);
  CHECK(place.report()[0]["config"]["optimizer.params.lr"]["origin"] == "given");
  auto const contradicted = run(place.command(small + "--ranks 2 --steps 1 --set optimizer.params.lr=0.5" + flags));
  CHECK(contradicted.ending.status == 2);
  CHECK_THAT(contradicted.output, Contains("optimizer.params.lr: 0.5, but the command line says 0.01"));
}

TEST_CASE("train_gpt prints its math library, and uses the one that --math names") {
  Place const place;
  auto const by_eigen = run(place.command(small + "--steps 1 --math eigen --show-products --report report"));
  INFO(by_eigen.output);
  REQUIRE(by_eigen.ending.status == 0);
  CHECK_THAT(by_eigen.output, Catch::StartsWith("products by Eigen 3.") && Contains("\nall products: Eigen\nstep 1/1"));
  CHECK(zeroth::testing::count_of(by_eigen.output, "products by " + place.report()[0]["math"].get<std::string>()) == 1);

  auto const by_onednn = run(place.command(small + "--steps 1 --math onednn --show-products --report report"));
  INFO(by_onednn.output);
  if (by_onednn.ending.status == 0) {
    CHECK_THAT(by_onednn.output,
               Catch::StartsWith("products by oneDNN ") &&
                   Contains("a product 24 x 48 x 16, fp32 to fp32, strides 16, 48 and 48, adding nothing, "
                            "bias: "));
    CHECK(place.report()[0]["math"].get<std::string>().starts_with("oneDNN "));
  } else {
    CHECK_THAT(by_onednn.output, Contains("--math onednn: train_gpt was built without oneDNN"));
  }
}

TEST_CASE("train_gpt resumes from what it saved", "[rank threads]") {
  Place const place;
  auto const first = run(place.command(small + "--steps 2 --report report --save-initial a --save-final b"));
  INFO(first.output);
  REQUIRE(first.ending.status == 0);
  auto const started = place.report();

  SECTION("the initial model gives the same run with any seed, and is saved unchanged") {
    auto const again = run(place.command("--steps 2 --report report --seed 77 --init a --save-initial c"));
    INFO(again.output);
    REQUIRE(again.ending.status == 0);
    CHECK(numbers_of(place.report()) == numbers_of(started));
    CHECK(read_all(place / "a/model.safetensors") == read_all(place / "c/model.safetensors"));
    CHECK(read_all(place / "a/config.json") == read_all(place / "c/config.json"));
  }
  SECTION("the final model differs") {
    auto const again = run(place.command("--steps 1 --report report --init b"));
    INFO(again.output);
    REQUIRE(again.ending.status == 0);
    CHECK(steps_of(place.report())[0]["loss"].get<double>() < steps_of(started)[0]["loss"].get<double>());
    CHECK(read_all(place / "a/model.safetensors") != read_all(place / "b/model.safetensors"));
  }
  SECTION("contradictions with it are rejected") {
    auto const again = run(place.command("--steps 1 --init a --layers 3"));
    CHECK(again.ending.status == 2);
    CHECK_THAT(again.output, Contains("--layers 3 contradicts --init a"));
  }
}

TEST_CASE("train_gpt shuffles by the seed") {
  Place const place;
  auto const numbers = [&](std::string const& more) {
    auto const result = run(place.command("--init a --steps 3 --report report " + more));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return numbers_of(place.report());
  };
  REQUIRE(run(place.command(small + "--steps 0 --save-initial a")).ending.status == 0);
  auto const shuffled = numbers("--order shuffled --seed 1");
  CHECK(shuffled == numbers("--order shuffled --seed 1"));
  CHECK(shuffled != numbers("--order shuffled --seed 2"));
  CHECK(shuffled != numbers("--order sequential"));
}

TEST_CASE("train_gpt --plan needs no data, and trains nothing") {
  Place const place;
  auto options = place.command(small + "--ranks 4 --plan --report report");
  std::erase(options.command, "--data");
  std::erase(options.command, "text");
  auto const result = run(options);
  INFO(result.output);
  CHECK(result.ending.status == 0);
  CHECK_THAT(result.output, Contains("parameters") && Contains("optimizer") && Contains("slots"));
  CHECK_FALSE(std::filesystem::exists(place / "report"));
}

TEST_CASE("train_gpt ends cleanly on Ctrl-C and SIGTERM, and saves its files", "[rank threads]") {
  auto const signal = GENERATE(SIGINT, SIGTERM);
  Place const place;
  Child child{place.command(small + "--ranks 2 --steps 100000000 --report report --save-final b")};
  REQUIRE(child.wait_for("step 3/"));
  child.send(signal);
  auto const ending = child.wait();
  INFO(child.output());
  CHECK(ending.status == 0);
  auto const report = place.report();
  CHECK(steps_of(report).size() >= 3);
  CHECK(report.back()["record"] == "memory");
  CHECK(std::filesystem::exists(place / "b/model.safetensors"));
}

TEST_CASE("train_gpt ends with the reason when its text becomes shorter") {
  Place const place;
  auto const bytes = std::filesystem::file_size(place / "text");
  Child child{place.command(small + "--ranks 2 --steps 100000000 --report report")};
  REQUIRE(child.wait_for("step 3/"));
  std::filesystem::resize_file(place / "text", 5);
  auto const ending = child.wait();
  INFO(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 1);
  CHECK_THAT(child.output(),
             Contains("--data text: had " + std::to_string(bytes) + " bytes when it was opened, but has 5 now"));
  CHECK_FALSE(std::filesystem::exists(place / "report"));
}

TEST_CASE("train_gpt reports mistakes, and leaves no partial file") {
  Place const place;
  struct Row {
    std::string more;
    std::vector<std::string> expected;
    int status = 2;  // 1: a retry may find the file
  };
  place.write("short", "twelve bytes");
  place.write("b", "a file");
  place.write("fp16.json", stage_file(3, R"(, "fp16": {"enabled": true})"));
  place.write("broken.json", R"({"zero_optimization": {"stgae": 3}})");
  for (auto const& row : std::vector<Row>{
           {"--data gone", {"--data gone", "No such file or directory"}, 1},
           {"--data short", {"--data short", "has 12 bytes", "--context 12 takes 13"}},
           {"--config broken.json", {"broken.json", "stgae", "stage"}},
           {"--config gone.json", {"gone.json"}},
           {"--channels 15", {"--channels 15 is not a multiple of --heads 2"}},
           {"--init gone", {"--init gone", "config.json"}},
           {"--save-final b", {"b", "is a file"}},
           {"--comm mpi --device cuda", {has_cuda ? "its transport is mpi" : "built without CUDA"}},
           {"--config fp16.json --math onednn", {"--math onednn: "}},
           {"--report gone/report", {"gone/report", "No such file or directory"}, 1},
       }) {
    auto options = place.command(small + "--steps 1 --ranks 2 " + row.more);
    // CLI11 takes each option only once, so drop the one that `more` replaces.
    auto const replaced = words_of(row.more).front();
    auto const first = std::find(options.command.begin(), options.command.end(), replaced);
    if (std::find(first + 1, options.command.end(), replaced) != options.command.end()) {
      options.command.erase(first, first + 2);
    }
    auto const result = run(options);
    INFO(row.more << ": " << result.output);
    CHECK(result.ending.status == row.status);
    for (auto const& text : row.expected) {
      CHECK_THAT(result.output, Contains(text));
    }
  }
  CHECK(read_all(place / "b") == "a file");
}

TEST_CASE("train_gpt on a GPU reports that there is none") {
  Place const place;
  auto options = place.command(small + "--steps 1 --device cuda --report report");
  options.environment = {{"CUDA_VISIBLE_DEVICES", ""}};  // hides any GPU of this machine
  auto const result = run(options);
  INFO(result.output);
  CHECK(result.ending.status == 2);
  CHECK_THAT(result.output, Contains(has_cuda ? "this process sees no GPU: cudaGetDeviceCount: "
                                              : "the library was built without CUDA; configure it with"));
  CHECK_FALSE(std::filesystem::exists(place / "report"));
}

TEST_CASE("train_gpt fails on a full disk") {
  Place const place;
  std::filesystem::create_symlink("/dev/full", place / "report");
  auto const result = run(place.command(small + "--steps 2 --ranks 2 --report report"));
  INFO(result.output);
  CHECK(result.ending.status == 1);
  CHECK_THAT(result.output, Contains("report report: cannot be written: No space left on device"));
  CHECK(std::filesystem::is_symlink(place / "report"));
}

TEST_CASE("train_gpt reports to standard output of any kind") {
  Place const place;
  auto options = place.command(small + "--steps 2 --report /dev/stdout");
  auto const to_pipe = run(options);
  CHECK(to_pipe.ending.status == 0);
  CHECK_THAT(to_pipe.output, Contains("\n{\"record\":\"step\",\"step\":2,") && Contains("step 2/2  loss"));

  std::string words = "exec";
  for (auto const& word : options.command) {
    words += " '" + word + "'";
  }
  options.command = {"sh", "-c", words + " > log"};
  auto const to_file = run(options);
  INFO(to_file.output);
  CHECK(to_file.ending.status == 0);
  CHECK_THAT(read_all(place / "log"), Contains("\n{\"record\":\"step\",\"step\":2,") && Contains("step 2/2  loss"));
}
