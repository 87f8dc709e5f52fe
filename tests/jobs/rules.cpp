// SPDX-License-Identifier: Apache-2.0
/// Values of options that no job may have together.
#include <string_view>
#include <vector>

#include "jobs/options.hpp"

namespace zeroth::testing::jobs {
namespace {

/// The values of `option` that do not begin with `prefix`.
std::vector<std::string_view> values_without(std::string_view option, std::string_view prefix) {
  std::vector<std::string_view> all;
  for (auto const& value : options()[option_named(option)].values) {
    if (!value.name.starts_with(prefix)) {
      all.push_back(value.name);
    }
  }
  return all;
}

/// Options that Muon rejects.
std::vector<Rule> rules_of_muon() {
  auto const others = values_without("optimizer", "Muon");
  return {{"types", {"bf16 masters and states"}, "optimizer", others}, {"states", {}, "optimizer", others}};
}

/// Options that Lamb rejects. It supports parameters on a disk only if they are the masters.
std::vector<Rule> rules_of_lamb() {
  auto const others = values_without("optimizer", "Lamb");
  return {{"types", {"bf16 masters and states"}, "optimizer", others},
          {"states", {}, "optimizer", others},
          {"parameters", {"on a disk"}, "optimizer", others}};
}

/// Options that pipelines reject, or that their own schedule determines.
std::vector<Rule> rules_of_pipelines() {
  return {
      {"nested guards", {}, "zeroth.mesh.pipeline", {"-"}},
      {"order", {}, "zeroth.mesh.pipeline", {"-"}},
      {"skips units", {}, "zeroth.mesh.pipeline", {"-"}},
      {"skips micro-steps", {}, "zeroth.mesh.pipeline", {"-"}},
      {"zeroth.replay_every", {"1", "2"}, "zeroth.mesh.pipeline", {"-"}},
      {"evaluates", {"between micro-steps"}, "zeroth.mesh.pipeline", {"-"}},
      {"reads", {"between micro-steps"}, "zeroth.mesh.pipeline", {"-"}},
      {"zeroth.pipeline.schedule", {"interleaved_1f1b of 2"}, "zeroth.mesh.pipeline", {"2"}},
      {"zeroth.pipeline.schedule", {"interleaved_1f1b of 2"}, "gradient_accumulation_steps", {"2"}},
      {"zeroth.pipeline.schedule", {"interleaved_1f1b of 3"}, "zeroth.mesh.pipeline", {"3"}},
      {"zeroth.pipeline.schedule", {"interleaved_1f1b of 3"}, "gradient_accumulation_steps", {"3"}},
      {"zeroth.pipeline.schedule", {}, "zeroth.mesh.pipeline", {"2", "1", "3"}},
      {"zeroth.pipeline.partition", {}, "zeroth.mesh.pipeline", {"2", "3"}},
  };
}

/// Options that tensor ranks reject, and limits on ranks that keep the tests fast.
std::vector<Rule> rules_of_tensor_ranks() {
  std::vector<Rule> rules{
      {"sequence parallelism", {}, "zeroth.mesh.tensor", {"1", "2", "3", "4"}},
      {"backward", {}, "zeroth.mesh.tensor", {"-"}},  // functions of a TensorParallel are called on the thread that
                                                      // made it
      {"backward", {}, "tensor ranks that go on", {"as many"}},
      {"zeroth.mesh.tensor", {"3", "4"}, "zeroth.mesh.pipeline", {"-", "1", "2"}},
      {"tensor ranks that go on", {}, "goes on", {"in a new engine", "at another stage"}},
      {"ranks of the reference", {}, "tensor ranks that go on", {"as many"}},
  };
  for (auto const* const option : {"zeroth.mesh.tensor", "tensor ranks that go on"}) {
    rules.push_back({option, {"2"}, "ranks", {"2", "1", "3", "4"}});
    rules.push_back({option, {"3", "4"}, "ranks", {"2", "1"}});
    rules.push_back({option, {"2"}, "ranks that go on", {"as many", "1", "2", "3", "4"}});
    rules.push_back({option, {"3", "4"}, "ranks that go on", {"as many", "1", "2"}});
  }
  return rules;
}

/// Types that leave the dtype in which gradients travel open, because codecs of integers determine it.
std::vector<std::string_view> types_without_reduction() {
  std::vector<std::string_view> all;
  for (auto const& value : options()[option_named("types")].values) {
    if (value.changes.find("communication_data_type") == std::string::npos) {
      all.push_back(value.name);
    }
  }
  return all;
}

enum class Codecs : bool { any, of_integers };
/// Types without a dynamic loss scale.
std::vector<std::string_view> types_with_a_constant_scale(Codecs codecs = Codecs::of_integers) {
  auto all = codecs == Codecs::any ? values_without("types", "none such") : types_without_reduction();
  std::erase_if(all, [](auto name) { return name.starts_with("fp16") && name != "fp16 with a scale of its own"; });
  return all;
}

/// Options that sign codecs reject, such as all that need stage 2 or 3.
std::vector<Rule> rules_of_signs() {
  std::vector<Rule> rules{{"zeroth.reduce_codec", {R"("sign")"}, "types", types_with_a_constant_scale()},
                          {"zeroth.reduce_codec", {R"("sign")"}, "zero_optimization.stage", {"0", "1"}},
                          {"zeroth.reduce_codec", {R"("sign")"}, "groups", {"none", "mics_shard_size"}},
                          {"zeroth.same_bits_at_any_ranks",
                           {"true"},
                           "zeroth.reduce_codec",
                           values_without("zeroth.reduce_codec", "\"sign")},
                          {"parameters", {}, "zeroth.reduce_codec", values_without("zeroth.reduce_codec", "\"sign")}};
  for (auto const* const option :
       {"zeroth.two_level_sums", "zeroth.mesh.tensor", "tensor ranks that go on", "zeroth.gradient_slots",
        "zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.stage3_max_live_parameters"}) {
    rules.push_back(
        {"zeroth.reduce_codec", {R"("sign")"}, option, {options()[option_named(option)].values.front().name}});
  }
  return rules;
}

/// Options that 1-bit Adam rejects, such as all that need stage 1 or more.
std::vector<Rule> rules_of_one_bit_adam() {
  auto const others = values_without("optimizer", "OneBitAdam");
  std::vector<Rule> rules{{"optimizer", {"OneBitAdam"}, "zero_optimization.stage", {"0"}},
                          {"optimizer", {"OneBitAdam"}, "gradient_clipping", {"0"}},
                          {"optimizer", {"OneBitAdam"}, "gradient edits", {"none"}},
                          {"optimizer", {"OneBitAdam"}, "zeroth.tied_gradients", {"-", "together"}},
                          {"optimizer", {"OneBitAdam"}, "zeroth.reduce_codec", {"-", "\"none\""}},
                          {"optimizer", {"OneBitAdam"}, "types", types_with_a_constant_scale(Codecs::any)},
                          {"types", {"bf16 masters and states"}, "optimizer", others},
                          {"zeroth.same_bits_at_any_ranks", {"true"}, "optimizer", others}};
  for (auto const* const option :
       {"states", "groups", "parameters", "zeroth.two_level_sums", "zeroth.mesh.pipeline", "zeroth.mesh.tensor",
        "tensor ranks that go on", "zeroth.gradient_slots", "zero_optimization.stage3_prefetch_bucket_size",
        "zero_optimization.stage3_max_live_parameters"}) {
    rules.push_back({option, {}, "optimizer", others});
  }
  return rules;
}

/// Options that delayed updates reject, such as all that need stage 3. finish() and save() apply the delayed update, so
/// the reference must call them at the same points.
std::vector<Rule> rules_of_delayed_updates() {
  auto const* const option = "zeroth.delayed_update";
  std::vector<Rule> rules{{option, {"true"}, "zero_optimization.stage", {"0", "1", "2"}},
                          {option, {"true"}, "groups", {"none", "mics_shard_size", "group_size"}},
                          {option, {"true"}, "zeroth.mesh.pipeline", {"-", "1"}},
                          {option, {"true"}, "zeroth.tied_gradients", {"-", "together"}},
                          {option, {"true"}, "states", {"in memory"}},
                          {option, {"true"}, "finish", {"in the end"}},
                          {option, {"true"}, "saves", {"in the end"}}};
  for (auto const* const type :
       {"Muon", "Muon without Nesterov", "Muon by Gram matrices", "Lamb", "Lamb without correction", "OneBitAdam"}) {
    rules.push_back({"optimizer", {type}, option, {"-", "false"}});
  }
  for (auto const* const other : {"parameters", "zero_optimization.stage3_prefetch_bucket_size",
                                  "zero_optimization.stage3_max_live_parameters"}) {
    rules.push_back({other, {}, option, {"-", "false"}});
  }
  return rules;
}

/// Options that parameter servers reject, such as all that need a stage above 0, and those that stale workers reject.
std::vector<Rule> rules_of_servers() {
  auto const* const servers = "zeroth.parameter_server.servers";
  auto const* const staleness = "zeroth.parameter_server.staleness";
  return {{servers, {}, "zero_optimization.stage", {"0"}},
          {"zeroth.mesh.pipeline", {"2", "3"}, servers, {"-"}},
          {"zeroth.mesh.tensor", {"2", "3", "4"}, servers, {"-"}},
          {"tensor ranks that go on", {"2", "3", "4"}, servers, {"-"}},
          {"zeroth.reduce_codec", {R"("exact")", R"("int8")", R"("int4")", R"("sign")"}, servers, {"-"}},
          {"zeroth.gather_codec", {R"("int8")"}, servers, {"-"}},
          {"zeroth.delayed_update", {"true"}, servers, {"-"}},
          {"zeroth.tied_gradients", {"apart"}, servers, {"-"}},
          {"optimizer",
           {"Muon", "Muon without Nesterov", "Muon by Gram matrices", "Lamb", "Lamb without correction", "OneBitAdam"},
           servers,
           {"-"}},
          {"states", {}, servers, {"-"}},
          {"groups", {}, servers, {"-"}},
          {"zeroth.two_level_sums", {}, servers, {"-"}},
          {"rank state", {}, servers, {"-"}},
          {"fp32 parameters", {}, servers, {"-"}},
          {"rate factors", {}, servers, {"-"}},
          {"gradient edits", {}, servers, {"-"}},
          {staleness, {"1", "3"}, servers, {"1", "2", "3"}},
          {staleness, {"1", "3"}, "gradient_clipping", {"0"}},  // a file without the key clips
          {staleness, {"1", "3"}, "types", types_with_a_constant_scale(Codecs::any)},
          {staleness, {"1", "3"}, "zeroth.reduce_gradients", {"-", "last_micro_step"}},
          {staleness, {"1", "3"}, "zeroth.same_bits_at_any_ranks", {"-", "false"}},
          {staleness, {"1", "3"}, "gradient norm", {"not asked", "ahead of the update"}},
          // A stop comes when all workers can still see it.
          {staleness, {"1", "3"}, "stop", {"never"}}};
}

/// Types with masters separate from the parameters.
std::vector<std::string_view> types_with_masters() {
  std::vector<std::string_view> all;
  for (auto const& value : options()[option_named("types")].values) {
    if (!value.name.starts_with("fp32") && !value.name.starts_with("bf16 masters")) {
      all.push_back(value.name);
    }
  }
  return all;
}

std::vector<Rule> all_rules() {
  std::vector<Rule> rules{
      {"zeroth.gather_codec", {R"("int8")"}, "types", types_with_masters()},
      {"zeroth.reduce_codec", {R"("int8")", R"("int4")"}, "types", types_without_reduction()},
      {"groups", {"zero_hpz_partition_size"}, "zero_optimization.stage", {"3"}},
      {"groups", {"mics_shard_size"}, "zero_optimization.stage", {"1", "2", "3"}},
      {"groups", {"group_size"}, "zeroth.two_level_sums", {"true"}},
      {"zeroth.two_level_sums", {}, "groups", {"zero_hpz_partition_size", "mics_shard_size", "group_size"}},
      {"size of groups", {}, "groups", {"zero_hpz_partition_size", "mics_shard_size", "group_size"}},
      {"parameters", {}, "zero_optimization.stage", {"3"}},
      {"zero_optimization.stage3_prefetch_bucket_size", {}, "zero_optimization.stage", {"3"}},
      {"zero_optimization.stage3_max_live_parameters", {}, "zero_optimization.stage", {"3"}},
      {"zero_optimization.stage3_model_persistence_threshold",
       {},
       "zero_optimization.stage3_param_persistence_threshold",
       {"1", "300", "100000"}},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save", {}, "weight file", {"saved and loaded"}},
      {"zeroth.gradient_slots", {}, "zero_optimization.stage", {"2", "3"}},
      {"zeroth.reduce_gradients", {}, "gradient_accumulation_steps", {"2", "3"}},
      {"zeroth.stochastic_rounding_seed", {}, "types", {"bf16 masters", "bf16 masters and states"}},
      {"zeroth.same_bits_at_any_ranks", {"true"}, "zeroth.reduce_gradients", {"-", "every_micro_step"}},
      {"zeroth.same_bits_at_any_ranks", {"true"}, "zeroth.two_level_sums", {"-"}},
      {"zeroth.same_bits_at_any_ranks",
       {"true"},
       "types",
       {"fp32", "fp32 reduced in bf16", "fp32 reduced in fp16", "bf16", "bf16 with fp32 gradients",
        "bf16 reduced in fp32", "bf16 by both words", "bf16 with what is not finite", "bf16 added up in fp32", "fp16",
        "fp16 without patience", "fp16 with a scale of its own", "fp16 with fp32 gradients", "fp16 added up in fp32"}},
      {"zeroth.activation_checkpointing.units",
       {R"("every 2")", R"("none")"},
       "activation_checkpointing.number_checkpoints",
       {"-"}},
      {"zeroth.activation_checkpointing.offload",
       {},
       "zeroth.activation_checkpointing.units",
       {R"("all")", R"("every 2")"}},
      {"ranks of the reference", {}, "zeroth.same_bits_at_any_ranks", {"true"}},
      {"ranks of the reference", {}, "ranks that go on", {"as many"}},
      // An evaluation has as many samples as there are ranks.
      {"ranks of the reference", {}, "evaluates", {"never"}},
      {"ranks of the reference", {}, "gradient norm", {"not asked", "ahead of the update", "of a parameter"}},
      {"zeroth.skip_nonfinite",
       {"false"},
       "types",
       {"fp32", "fp32 reduced in bf16", "fp32 reduced in fp16", "bf16", "bf16 with fp32 gradients",
        "bf16 by both words", "bf16 reduced in fp32", "bf16 added up in fp32", "bf16 masters",
        "bf16 masters and states"}},
      {"zeroth.skip_nonfinite", {"true"}, "types", values_without("types", "bf16 with what is not finite")},
      {"zeroth.copy_engine_gather", {"true"}, "zeroth.register_memory", {"-", "true"}},
      {"batch sizes", {"train batch"}, "gradient_accumulation_steps", {"-"}},
      {"ranks that go on", {}, "goes on", {"in a new engine", "at another stage"}},
      {"goes on from", {}, "goes on", {"in the same engine", "in a new engine", "at another stage"}},
      {"evaluates", {"between micro-steps"}, "gradient_accumulation_steps", {"2", "3"}},
      {"reads", {"between micro-steps"}, "gradient_accumulation_steps", {"2", "3"}},
      // Skipped turns are taken in declared order.
      {"skips units", {}, "order", {"declared"}},
      {"skips micro-steps", {}, "order", {"declared"}},
  };
  for (auto const* const masters : {"bf16 masters", "bf16 masters and states"}) {
    rules.push_back({"types", {masters}, "zeroth.ema.decay", {"-"}});
  }
  for (auto const& more : {rules_of_pipelines(), rules_of_tensor_ranks(), rules_of_muon(), rules_of_lamb(),
                           rules_of_signs(), rules_of_one_bit_adam(), rules_of_delayed_updates(), rules_of_servers()}) {
    rules.insert(rules.end(), more.begin(), more.end());
  }
  for (auto const* const option :
       {"zero_optimization.offload_optimizer.ratio", "zero_optimization.offload_optimizer.buffer_count",
        "zero_optimization.offload_optimizer.pipeline_read", "zero_optimization.offload_optimizer.pipeline_write",
        "zero_optimization.sub_group_size"}) {
    rules.push_back({option, {}, "states", {"on a disk"}});
  }
  for (auto const* const option :
       {"zero_optimization.offload_param.max_in_cpu", "zero_optimization.offload_param.buffer_size",
        "zero_optimization.offload_param.buffer_count"}) {
    rules.push_back({option, {}, "parameters", {"on a disk"}});
  }
  return rules;
}

}  // namespace

std::vector<Rule> const& rules() {
  static auto const all = all_rules();
  return all;
}

}  // namespace zeroth::testing::jobs
