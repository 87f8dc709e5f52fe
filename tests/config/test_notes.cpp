// SPDX-License-Identifier: Apache-2.0
/// Notes about a DeepSpeed file: keys without effect here, and keys that neither DeepSpeed nor Zeroth knows.
#include <string>
#include <vector>

#include "config/config_support.hpp"
#include "config/foreign_keys.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

using testing::problems_of;

std::vector<std::string> notes_of(std::string const& members) {
  std::vector<std::string> texts;
  auto const config = Config::from_json(testing::file_with(members));
  for (auto const& note : config.notes()) {
    if (note.kind != config::NoteKind::assumed) {
      texts.push_back(note.path + ": " + note.text);
    }
  }
  return texts;
}
using Texts = std::vector<std::string>;

TEST_CASE("A key without effect is noted, unless it asks for nothing") {
  CHECK(notes_of(R"("aio": {"single_submit": true, "overlap_events": true})") ==
        Texts{"aio.single_submit: true: requests are submitted as they come"});
  CHECK(notes_of(R"("zero_optimization": {"sub_group_size": 1e9, "stage3_max_reuse_distance": "auto"})").empty());
  CHECK(notes_of(R"("pipeline": {"stages": 2, "anything": []})") ==
        Texts{"pipeline: {\"stages\": 2, \"anything\": []}: DeepSpeed too reads it for a PipelineModule only"});
  CHECK(notes_of(R"("wandb": {"enabled": false, "project": "mine", "team": null})").empty());
  auto const config = Config::from_json(
      "{\n\"train_batch_size\": 8,\n\"prescale_gradients\": true, \"optimizer\": {\"type\": \"SGD\"}}");
  REQUIRE(config.notes().size() == 1);
  CHECK(config.notes().front().line == 3);
  CHECK(config.notes().front().kind == config::NoteKind::no_effect);
}

TEST_CASE("A value of the wrong form is rejected, also for keys without effect") {
  CHECK(problems_of(testing::file_with(R"("zero_optimization": {"allgather_bucket_size": "many"})")) ==
        "  zero_optimization.allgather_bucket_size (line 1): \"many\" is a string; allowed: a whole number");
  CHECK(problems_of(testing::file_with(R"("prescale_gradients": 1)")) ==
        "  prescale_gradients (line 1): 1 is a number; allowed: true or false");
}

TEST_CASE("A zeroth.strict that is not a boolean is rejected") {
  for (std::string const wrong : {R"("yes")", "1", "[]", "{}"}) {
    CAPTURE(wrong);
    auto const problems = problems_of(testing::file_with(R"("nobody": 1, "zeroth": {"strict": )" + wrong + "}"));
    CHECK(problems.find("zeroth.strict (line 1): ") != std::string::npos);
    CHECK(problems.find("nobody") == std::string::npos);  // whether that is an error is unknown
  }
}

TEST_CASE("With zeroth.strict notes are errors") {
  CHECK(problems_of(testing::file_with(
            R"("prescale_gradients": true, "nobody": 1, "optimizer": {"type": "SGD"}, "zeroth": {"strict": true})")) ==
        "  prescale_gradients (line 1): true: a mean either way: fp16 sums are divided before they travel, by a power "
        "of two, all others in the update (zeroth.strict is true)\n"
        "  nobody (line 1): unknown key, with value 1; ignored, as DeepSpeed does (zeroth.strict is true)");
}

TEST_CASE("Assumed and odd values are noted") {
  auto const assumed = [](std::string const& members) {
    Texts texts;
    auto const config = Config::from_json(testing::file_with(members));
    for (auto const& note : config.notes()) {
      CHECK(note.kind == config::NoteKind::assumed);
      texts.push_back(note.path + ": " + note.text);
    }
    return texts;
  };
  CHECK(assumed("") == Texts{"optimizer.type: not set; assuming AdamW with a rate of 0.001"});
  CHECK(assumed(R"("optimizer": {"type": "AdamW"})").empty());
  auto const* const optimizer = R"("optimizer": {"type": "SGD"}, "scheduler": )";
  CHECK(assumed(std::string{optimizer} +
                R"({"type": "WarmupDecayLR", "params": {"total_num_steps": 10, "warmup_num_steps": 20}})") ==
        Texts{"scheduler.params.total_num_steps: 10 is less than scheduler.params.warmup_num_steps, 20: the rate "
              "reaches its final value right after the warm-up"});
  CHECK(assumed(std::string{optimizer} + R"({"type": "WarmupLR", "params": {"warmup_num_steps": 20}})").empty());
}

TEST_CASE("With zeroth.strict no optimizer is assumed, and a program may still name or provide one") {
  auto const strict = Config::from_json(testing::file_with(R"("zeroth": {"strict": true})"));
  CHECK(strict.notes().empty());
  REQUIRE(strict.open().size() == 1);
  CHECK(strict.open().front().path == "optimizer.type");
  auto const text = testing::file_with(R"("zeroth": {"strict": true})");
  CHECK(problems_of(text, 1).find("  optimizer.type: ") == 0);
  CHECK(problems_of(text, 1).find("or give a rule of the program: none is assumed if zeroth.strict is true") !=
        std::string::npos);
  ConfigInputs inputs;
  inputs.given = R"({"optimizer": {"type": "SGD"}})";
  CHECK(Config::from_json(text, inputs).open().empty());
  CHECK(
      strict
          .with(optim::CustomRule{.type = "rule", .kept_states = {}, .update = [](optim::CustomRuleElements const&) {}})
          .open()
          .empty());
}

TEST_CASE("An unknown key is ignored where DeepSpeed ignores it, unless it is close to a known key") {
  CHECK(notes_of(R"("num_gpus": 4, "log": "x")") ==
        Texts{"num_gpus: unknown key, with value 4; ignored, as DeepSpeed does",
              "log: unknown key, with value \"x\"; ignored, as DeepSpeed does; log_level is known"});
  CHECK(notes_of(R"("offload_optimizer": {"device": "cpu"})") ==
        Texts{"offload_optimizer: unknown key, with value {\"device\": \"cpu\"}; ignored, as DeepSpeed does"});
  CHECK(
      notes_of(R"("optimizer": {"type": "Adam", "eps": 1e-8})") ==
      Texts{"optimizer.eps: unknown key, with value 1e-8; ignored, as DeepSpeed does; optimizer.params.eps is known"});
  CHECK(problems_of(testing::file_with(R"("gradient_cliping": 1)")).find("did you mean gradient_clipping") !=
        std::string::npos);
  CHECK_FALSE(problems_of(testing::file_with(R"("zero_optimization": {"nobody": 1})")).empty());  // as in DeepSpeed
  CHECK_FALSE(problems_of(testing::file_with(R"("zeroth": {"nobody": 1})")).empty());
}

TEST_CASE("Keys named like comments are taken as comments") {
  CHECK(notes_of(R"("_comment": "x", "_read_the_docs": 1, "comment": [], "comments": {"a": {}})").empty());
  CHECK(notes_of(R"("zero_optimization": {"_comment": "x"})") ==
        Texts{"zero_optimization._comment: taken as a comment; DeepSpeed refuses it in this section"});
}

TEST_CASE("Trailing commas are read, and other Hjson syntax is rejected by name") {
  auto const settings = Config::from_json(R"({
    "train_batch_size": 8,  // a comma, and a brace in a comment: ,}
    "optimizer": {"type": "AdamW", "params": {"lr": 0.5, "betas": [0.5, 0.5, /* , ] */ ], }, },
    "_": "a \" ,} in a string",
  })")
                            .settings(1, 1);
  CHECK(settings.rules.schedule.base == 0.5F);
  CHECK_FALSE(problems_of(R"({"train_batch_size": 8,,})").empty());
  CHECK_FALSE(problems_of("{,}").empty());
  CHECK_FALSE(problems_of(R"({"train_batch_size": 8, "_": [,]})").empty());
  auto const contains = [](std::string const& file, std::string const& part) {
    INFO(problems_of(file));
    CHECK(problems_of(file).find(part) != std::string::npos);
  };
  contains("{train_batch_size: 8}", "Hjson's names and strings without quotes are not read");
  contains("{\"tensorboard\": {\"output_path\": ./logs}}", "not valid JSON");
  contains("{\"tensorboard\": {\"output_path\": logs}}", "Hjson's names and strings without quotes are not read");
  contains("{\"train_batch_size\": 8 # eight\n}", "Hjson's comments with # are not read");
  contains("{'train_batch_size': 8}", "Hjson's quotes of ' are not read");
}

TEST_CASE("Several keys with one cause give one line") {
  CHECK(problems_of(testing::file_with(R"("bf16": {"enabled": true, "loss_scale": 0, "hysteresis": 2})")) ==
        "  bf16.loss_scale (line 1): 0 is not supported: bf16 needs no loss scale; remove it (likewise hysteresis)");
  CHECK(problems_of(
            testing::file_with(R"("optimizer": {"params": {"lr": 1, "coeff_beta": 0.9}, "type": "OneBitLamb"})")) ==
        "  optimizer.type (line 1): \"OneBitLamb\" has been removed from DeepSpeed 0.19; allowed: \"AdamW\", \"Adam\", "
        "\"SGD\", \"Adagrad\", \"RMSprop\", \"Lion\", \"Lamb\", \"Muon\" or \"OneBitAdam\"");
  CHECK(problems_of(testing::file_with(R"("scheduler": {"type": "WarmupCosineLR", "params": {"warmup_min_lr": 0,
                                          "warmup_max_lr": 1, "total_num_steps": 2000}})")) ==
        "  scheduler.params.warmup_min_lr (line 1): not a parameter of WarmupCosineLR, but of WarmupLR and "
        "WarmupDecayLR; neither is warmup_max_lr");
}

TEST_CASE("Keys that DeepSpeed has removed are rejected with that reason, and noted if they ask for nothing") {
  CHECK(
      problems_of(testing::file_with(R"("elasticity": {"enabled": true})")) ==
      "  elasticity (line 1): DeepSpeed 0.19 has removed this key, and Zeroth does not have it; give the batch sizes");
  CHECK(notes_of(R"("elasticity": {"enabled": false})") ==
        Texts{"elasticity: {\"enabled\": false}: DeepSpeed 0.19 has removed this key and refuses the file"});
  CHECK(notes_of(R"("zero_optimization": {"mics_shard_size": -1})") ==
        Texts{"zero_optimization.mics_shard_size: -1: DeepSpeed 0.19 has removed this key and refuses the file"});
}

TEST_CASE("Offload to the device cpu is supported") {
  auto const settings = testing::settings_of(R"("zero_optimization": {"stage": 3,
      "offload_optimizer": {"device": "cpu", "pin_memory": true, "buffer_count": 4}, "offload_param": {"device": "none"}})");
  CHECK(settings.offload.optimizer == OffloadDevice::cpu);
  CHECK(settings.offload.parameters == OffloadDevice::none);
  CHECK(testing::settings_of(R"("zero_optimization": {"stage": 2, "cpu_offload": true})").offload.optimizer ==
        OffloadDevice::cpu);
  CHECK(testing::settings_of(R"("zero_optimization": {"offload_param": null})").offload.parameters ==
        OffloadDevice::none);
}

TEST_CASE("The oldest spelling of stage 1 is accepted") {
  CHECK(testing::settings_of(R"("zero_optimization": true)").stage == 1);
  CHECK(testing::settings_of(R"("zero_optimization": false)").stage == 0);
}

TEST_CASE("Limits for a dynamic loss scale do not apply to a static one") {
  auto const members = R"("fp16": {"enabled": %, "loss_scale": 1024, "hysteresis": 0, "min_loss_scale": 0,
                                   "loss_scale_window": 0})";
  auto const with = [&](std::string text, char const* enabled, char const* scale) {
    text.replace(text.find('%'), 1, enabled);
    text.replace(text.find("1024"), 4, scale);
    return problems_of(testing::file_with(text));
  };
  CHECK(with(members, "true", "1024").empty());
  CHECK(with(members, "false", "0").empty());
  CHECK(with(members, "true", "0") ==
        "  fp16.hysteresis (line 1): 0 is out of range with a dynamic loss scale; allowed: 1 or more\n"
        "  fp16.min_loss_scale (line 1): 0 is out of range with a dynamic loss scale; allowed: 1 or more\n"
        "  fp16.loss_scale_window (line 2): 0 is out of range with a dynamic loss scale; allowed: 1 or more");
}

TEST_CASE("The table of DeepSpeed's other keys is consistent") {
  for (auto const& key : config::foreign_keys()) {
    INFO(key.path);
    bool const explains = key.verdict != config::Verdict::removed;
    CHECK((!explains || !key.why.empty()));
    CHECK(config::find_foreign_key(key.path) == &key);  // only once
  }
}

}  // namespace
}  // namespace zeroth
