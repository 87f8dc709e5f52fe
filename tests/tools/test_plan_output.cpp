// SPDX-License-Identifier: Apache-2.0
/// The output of plans, as text and as JSON.
#include "plan_output.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan_support.hpp"
#include "readable.hpp"
#include "support/catch.hpp"

namespace zeroth::tools {
namespace {

using nlohmann::json;

PlanResult result_of(std::string const& config_file, std::string const& config, std::int64_t parameters, int world,
                     std::optional<std::int64_t> device_bytes = {}, DeviceKind device = DeviceKind::cpu) {
  auto source = read_model({.model = {}, .parameters = parameters, .units = 4});
  auto input = input_for(source.model, config, world);
  input.options.device = device;
  auto asked_for = plan_of(input);
  PlanResult result{std::move(source), std::move(input), config_file, std::move(asked_for), {}, device_bytes, {}};
  result.stages = plan_stages(result.input);
  auto const asked = stage_asked_for(result);
  if (device_bytes && result.stages[static_cast<std::size_t>(asked)].plan->bytes.total() > *device_bytes) {
    result.advice = advise(result.input, result.stages, asked, *device_bytes);
  }
  return result;
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

TEST_CASE("In JSON, every stage's categories and padding add up to its total") {
  auto const result = result_of("stage.json", file_of_stage(2, R"(, "bf16": {"enabled": true})"), 1'000'001, 7);
  auto const parsed = json::parse(as_json(result));
  CHECK(parsed["ranks"] == 7);
  CHECK(parsed["stage"] == 2);
  CHECK(parsed["config"] == "stage.json");
  CHECK(parsed["model"]["parameters"] == 1'000'001);
  CHECK(parsed["model"]["units"] == 4);
  REQUIRE(parsed["stages"].size() == 4);
  for (int stage = 0; stage <= 3; ++stage) {
    auto const& entry = parsed["stages"][static_cast<std::size_t>(stage)];
    CHECK(entry["stage"] == stage);
    std::int64_t sum = 0;
    for (char const* key : {"parameters", "gradients", "optimizer", "slots", "scratch", "padding"}) {
      sum += entry[key].get<std::int64_t>();
    }
    CHECK(entry["total"] == sum);
    CHECK(entry["padding"] > 0);
    CHECK(entry["bytes_sent_per_step"] > 0);
    CHECK_FALSE(entry.contains("fits"));
  }
  CHECK_FALSE(parsed.contains("advice"));
}

TEST_CASE("A pipeline has a row for each of its stages, whose categories add up") {
  auto source = read_model({.model = {}, .parameters = 10'000'000, .units = 8, .channels = 64, .context = 32});
  auto input = input_for(source.model,
                         R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 3,
                             "zero_optimization": {"stage": 1}, "zeroth": {"mesh": {"pipeline": 4}}})",
                         8);
  auto asked_for = plan_of(input);
  PlanResult result{std::move(source), std::move(input), "stage.json", std::move(asked_for), {}, {}, {}};
  result.stages = plan_stages(result.input);
  auto const text = as_text(result);
  CHECK(contains(text, "A pipeline of 4 stages of 2 ranks, 1f1b; the table above is of the stage that holds most:\n"));
  CHECK(contains(text,
                 "MiB per rank at stage 1    units   elements  in flight  parameters  gradients  optimizer  slots  "
                 "messages  scratch  padding  total\n"));
  CHECK(contains(text, "\npipeline stage 1, largest      2  2,500,000          3 "));
  auto const parsed = json::parse(as_json(result));
  auto const& pipeline = parsed["pipeline"];
  CHECK(pipeline["schedule"] == "1f1b");
  CHECK(pipeline["data_ranks"] == 2);
  REQUIRE(pipeline["stages"].size() == 4);
  for (auto const& entry : pipeline["stages"]) {
    std::int64_t sum = 0;
    for (char const* key : {"parameters", "gradients", "optimizer", "slots", "messages", "scratch", "padding"}) {
      sum += entry[key].get<std::int64_t>();
    }
    CHECK(entry["total"] == sum);
  }
  CHECK(pipeline["stages"][pipeline["largest"].get<std::size_t>()]["total"] == parsed["stages"][1]["total"]);
  CHECK(pipeline["stages"][2]["first_unit"] == "unit 4");
}

TEST_CASE("The text notes units that are too large to prefetch, and what would suffice") {
  auto const large = result_of("", file_of_stage(3), 4'000'000'000, 4);
  CHECK(contains(
      as_text(large),
      "* as requested\n6 of 8 turns of a training pass are not prefetched: their unit and the previous one together "
      "exceed zero_optimization.stage3_max_live_parameters, 1000000000; 2000000000 suffices for all.\n"));
  auto const small = result_of("", file_of_stage(3), 1'000'000'000, 4);
  CHECK_FALSE(contains(as_text(small), "not prefetched"));
}

TEST_CASE("The text notes if stages round differently, and if many micro-steps are added in 16 bits") {
  auto const text = [](char const* more) {
    return as_text(result_of("stage.json",
                             fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 9,
                                              "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": 1}} {}}})",
                                         more),
                             1000, 2));
  };
  auto const silent = text("");
  CHECK(contains(silent, "* as requested\nzeroth.reduce_gradients is not set: by default stages 0 and 1 "));
  CHECK(contains(silent,
                 "\n9 micro-steps are added up in bf16, whose roundings grow with their number; "
                 "data_types.grad_accum_dtype \"fp32\" adds them up in fp32.\n"));
  auto const said = text(R"(, "zeroth": {"reduce_gradients": "last_micro_step"},
                              "data_types": {"grad_accum_dtype": "fp32"})");
  CHECK_FALSE(contains(said, "zeroth.reduce_gradients"));
  CHECK(contains(said, "; 9 micro-steps; other roundings on another number of ranks\n"));
  CHECK(contains(text(R"(, "zeroth": {"same_bits_at_any_ranks": true})"),
                 "; 9 micro-steps; the same bits on another number of ranks\n"));
  CHECK_FALSE(contains(said, "micro-steps are added up"));
}

TEST_CASE("Persistent parameters are listed with their bytes if others are sharded") {
  auto const of = [](int stage, char const* threshold) {
    return result_of("stage.json",
                     fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}},
                                      "zero_optimization": {{"stage": {},
                                                             "stage3_param_persistence_threshold": {}}}}})",
                                 stage, threshold),
                     1'000'000, 2);
  };
  auto const two = of(3, "250000");
  CHECK(contains(as_text(two),
                 "\n4 persistent parameters with 1,000,000 elements are whole on every rank, in 1.91 MiB.\n"));
  auto const parsed = json::parse(as_json(two));
  CHECK(parsed["persistent"]["parameters"] == 4);
  CHECK(parsed["persistent"]["elements"] == 1'000'000);
  CHECK(parsed["persistent"]["bytes"] == 2 * 4 * 250'112);  // 977 times 256, for two ranks
  for (auto const& none : {of(3, "249999"), of(2, "250000")}) {
    CHECK_FALSE(contains(as_text(none), "persistent"));
    CHECK_FALSE(json::parse(as_json(none)).contains("persistent"));
  }
}

TEST_CASE("Host memory for saves is a column of its own, not part of the total") {
  auto const with =
      result_of("stage.json", file_of_stage(3, R"(, "zeroth": {"checkpoint": {"buffer_bytes": 9000000}})"), 1'000'000,
                4, 15'000'000);
  auto const text = as_text(with);
  CHECK(contains(text, "sent per step  staging  left of 14.31\n"));
  CHECK(contains(text, " 8.00 "));
  CHECK(contains(text, "\nStaging is memory of the host beside the total, from a rank's first save on.\n"));
  auto const told = json::parse(as_json(with));
  for (auto const& stage : told["stages"]) {
    CHECK(stage["staging"] == 8 << 20);
    CHECK(stage["left"] == 15'000'000 - stage["total"].get<std::int64_t>());
  }
  auto const without = result_of("stage.json", file_of_stage(3), 1'000'000, 4);
  CHECK_FALSE(contains(as_text(without), "taging"));
  CHECK_FALSE(json::parse(as_json(without))["stages"][3].contains("staging"));
}

TEST_CASE("With a device's memory the JSON has what fits, what is left, and what to change") {
  auto const result = result_of("stage.json", file_of_stage(0), 1'000'000, 4, 15'000'000);
  auto const parsed = json::parse(as_json(result));
  CHECK(parsed["device_memory"] == 15'000'000);
  for (auto const& stage : parsed["stages"]) {
    CHECK(stage["left"] == 15'000'000 - stage["total"].get<std::int64_t>());
    CHECK(stage["fits"] == (stage["total"].get<std::int64_t>() <= 15'000'000));
  }
  CHECK_FALSE(parsed["stages"][0]["fits"].get<bool>());
  CHECK(parsed["advice"]["smallest_stage"] == 1);
  CHECK(parsed["advice"]["ranks_for_stage_3"].is_null());
  CHECK(parsed["advice"]["largest_unit"]["parameters"] == 250'000);
}

TEST_CASE("JSON and text have the notes about rounding of micro-steps") {
  auto const result = result_of("stage.json", R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 9,
    "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"}, "zero_optimization": {"stage": 2}})",
                                1000, 2);
  auto const parsed = json::parse(as_json(result));
  CHECK(contains(parsed["other_ranks"], "sums are rounded to bf16 (data_types.grad_accum_dtype)"));
  REQUIRE(parsed["notes"].size() == 2);
  CHECK(contains(parsed["notes"][0], "\"every_micro_step\" is the default of stage 2"));
  CHECK(contains(parsed["notes"][1], "9 micro-steps are added up in bf16"));
  for (auto const& note : parsed["notes"]) {
    CHECK(contains(as_text(result), note.get<std::string>() + ".\n"));
  }
  CHECK(json::parse(as_json(result_of("stage.json", file_of_stage(2), 1000, 2)))["notes"].empty());
}

TEST_CASE("In JSON, a rejected stage has the reason") {
  auto const result =
      result_of("stage.json", R"({"train_micro_batch_size_per_gpu": 1, "communication_data_type": "bf16",
    "gradient_accumulation_steps": 4, "data_types": {"grad_accum_dtype": "bf16"},
    "zero_optimization": {"stage": 2}})",
                1000, 2);
  auto const parsed = json::parse(as_json(result));
  CHECK(contains(parsed["stages"][0]["refused"], "grad_accum_dtype"));
  CHECK_FALSE(parsed["stages"][0].contains("total"));
  auto const text = as_text(result);
  CHECK(contains(text, "\nstage 0       refused, see below\n"));
  CHECK(contains(text, "stage 0 is refused: <text>: 1 problem\n  data_types.grad_accum_dtype"));
  CHECK(contains(text, "stage 2 *"));
}

TEST_CASE("The table marks the file's stage, and has suitable units") {
  auto const small = as_text(result_of("stage.json", file_of_stage(1), 2'000'000, 2));
  CHECK(contains(small,
                 "equal units: 2,000,000 parameters in 4 units; from --parameters\n"
                 "2 ranks; stage.json: stage 1 in fp32, no overlap\n"));
  CHECK(contains(small, "MiB per rank"));
  CHECK(contains(small, "\nstage 1 *"));
  CHECK(contains(small, "* as requested\n"));
  CHECK_FALSE(contains(small, "left of"));
  CHECK(contains(as_text(result_of("", mixed, 1000, 2)), "KiB per rank"));
  auto const large = as_text(result_of("", mixed, 2'000'000'000'000, 2));
  CHECK(contains(large, "GiB per rank"));
  CHECK(contains(large, "\nstage 0 *"));
  CHECK(contains(large,
                 "2 ranks; no stage file: stage 0 in bf16, no overlap, 16 bytes per parameter as in the ZeRO paper\n"));
}

TEST_CASE("The text shows what is left or missing, and what to change") {
  auto const text = as_text(result_of("stage.json", file_of_stage(0), 1'000'000, 4, 15'000'000));
  CHECK(contains(text, "left of 14.31\n"));
  CHECK(contains(text, "short\n"));
  CHECK(contains(text,
                 "\nStage 0 does not fit into 14.31 MiB. What would change that:\n"
                 "- zero_optimization.stage: 1 fits on these ranks\n"));
  auto const none = as_text(result_of("stage.json", file_of_stage(3), 1'000'000, 4, 8'000'000));
  CHECK(contains(none, "- no stage fits on 4 ranks\n- stage 3 fits on 16 ranks, the first power of two\n"));
  CHECK(contains(none, "- slots hold whole units: the largest, \"unit 0\", has 250,000 parameters"));
}

TEST_CASE("With a GPU host memory has its own column, and is suggested") {
  auto const* const file = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {
    "stage": 1, "offload_optimizer": {"device": "cpu"}, "sub_group_size": 20000}})";
  auto const on_gpu = result_of("stage.json", file, 1'000'000, 2, {}, DeviceKind::cuda);
  CHECK(contains(as_text(on_gpu), "of host"));
  CHECK_FALSE(contains(as_text(on_gpu), "on disk"));
  auto const parsed = json::parse(as_json(on_gpu))["stages"][1];
  CHECK(parsed["host"]["bytes"] == on_gpu.asked_for.host.bytes);
  CHECK(parsed["host"]["bytes"].get<std::int64_t>() >= 12 * 500'000);
  CHECK_FALSE(parsed.contains("disk"));
  auto const on_cpu = result_of("stage.json", file, 1'000'000, 2);
  CHECK_FALSE(contains(as_text(on_cpu), "of host"));
  CHECK_FALSE(json::parse(as_json(on_cpu))["stages"][1].contains("host"));
  auto const advised = result_of("stage.json", file_of_stage(1), 100'000'000, 2, 1'100'000'000, DeviceKind::cuda);
  CHECK(contains(as_text(advised), "- stage 1 with zero_optimization.offload_optimizer {\"device\": \"cpu\"} and "));
  CHECK(contains(as_text(advised), " are in the host's memory of each rank, all of which a step reads and writes\n"));
  CHECK(json::parse(as_json(advised))["advice"]["host"][0]["stage"] == 1);
  auto const refused = result_of("stage.json", R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {
    "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}})",
                                 1000, 2, {}, DeviceKind::cuda);
  CHECK(contains(as_text(refused), "which is not supported with GPUs; set it to \"cpu\" or \"none\""));
}

TEST_CASE("Parameters on a disk are suggested in addition to states, in the text and in JSON") {
  auto const advised = result_of("stage.json", file_of_stage(3), 100'000'000, 2, 1);
  CHECK(contains(as_text(advised),
                 R"(- on CPUs stage 3 with zero_optimization.offload_param {"device": "nvme", "nvme_path": ..., )"
                 R"("max_in_cpu": 0, "buffer_size": 262144} beside that needs )"));
  CHECK(contains(as_text(advised),
                 ": it does not fit either; 190.75 MiB are on the disk of each rank, which gathers "
                 "read and updates write\n"));
  auto const parsed = json::parse(as_json(advised))["advice"]["parameters_disk"];
  CHECK(parsed["stage"] == 3);
  CHECK(parsed["buffer_size"] == 262144);
  CHECK(parsed["bytes"].get<std::int64_t>() >= 4 * 50'000'000);
}

TEST_CASE("Bytes are printed in readable units") {
  CHECK(readable_bytes(0) == "0 B");
  CHECK(readable_bytes(1023) == "1023 B");
  CHECK(readable_bytes(1'536) == "1.50 KiB");
  CHECK(readable_bytes(1'572'864) == "1.50 MiB");
  CHECK(readable_bytes(std::int64_t{3} << 30U) == "3.00 GiB");
}

}  // namespace
}  // namespace zeroth::tools
