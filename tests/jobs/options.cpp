// SPDX-License-Identifier: Apache-2.0
#include "jobs/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

namespace zeroth::testing::jobs {
namespace {

/// The values of one key, as JSON; "-" leaves it out.
Option key(std::string const& path, Role role, std::vector<std::string> const& values) {
  Option option{path, role, {}};
  for (auto const& value : values) {
    std::string changes = value;
    for (auto rest = path; value != "-" && !rest.empty();) {
      auto const dot = rest.rfind('.');
      changes = fmt::format(R"({{"{}": {}}})", dot == std::string::npos ? rest : rest.substr(dot + 1), changes);
      rest = dot == std::string::npos ? "" : rest.substr(0, dot);
    }
    option.values.push_back({value, value == "-" ? "" : changes});
  }
  return option;
}

/// An option of the program, or one that depends on other options.
Option call(std::string name, Role role, std::vector<std::string> const& values) {
  Option option{std::move(name), role, {}};
  for (auto const& value : values) {
    option.values.push_back({value, ""});
  }
  return option;
}

Option types() {
  return {"types",
          Role::decides,
          {{"fp32", ""},
           {"fp32 reduced in bf16", R"({"communication_data_type": "bf16"})"},
           {"fp32 reduced in fp16", R"({"communication_data_type": "fp16"})"},
           {"bf16", R"({"bf16": {"enabled": true}})"},
           {"bf16 with fp32 gradients", R"({"bf16": {"enabled": true}, "zeroth": {"gradient_dtype": "fp32"}})"},
           {"bf16 reduced in fp32", R"({"bf16": {"enabled": true}, "communication_data_type": "fp32"})"},
           {"bf16 by both words", R"({"bf16": {"enabled": true}, "data_types": {"param_dtype": "bf16"}})"},
           {"bf16 with what is not finite", R"({"bf16": {"enabled": true, "check_grad_overflow": false}})"},
           {"bf16 added up in fp32", R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})"},
           {"bf16 masters", R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}})"},
           {"bf16 masters and states",
            R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}})"},
           {"fp16", R"({"fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 2}})"},
           {"fp16 without patience", R"({"fp16": {"enabled": true, "initial_scale_power": 10, "loss_scale_window": 1,
              "hysteresis": 1, "consecutive_hysteresis": true, "min_loss_scale": 512}})"},
           {"fp16 with a scale of its own", R"({"fp16": {"enabled": true, "loss_scale": 64}})"},
           {"fp16 with fp32 gradients", R"({"fp16": {"enabled": true, "initial_scale_power": 4},
              "zeroth": {"gradient_dtype": "fp32"}})"},
           {"fp16 added up in fp32", R"({"fp16": {"enabled": true, "initial_scale_power": 4},
              "data_types": {"grad_accum_dtype": "fp32"}})"}}};
}

Option optimizer() {
  auto const of = [](char const* type, char const* params) {
    return fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{"lr": 0.01{}}}}}}})", type, params);
  };
  return {"optimizer",
          Role::decides,
          {{"AdamW", of("AdamW", R"(, "weight_decay": 0.1)")},
           {"AdamW without correction", of("AdamW", R"(, "bias_correction": false, "betas": [0.8, 0.95])")},
           {"Adam with L2", of("Adam", R"(, "adam_w_mode": false, "weight_decay": 0.1, "eps": 1e-6)")},
           {"SGD", of("SGD", R"(, "weight_decay": 0.1)")},
           {"SGD with momentum", of("SGD", R"(, "momentum": 0.75, "dampening": 0.25)")},
           {"SGD with Nesterov", of("SGD", R"(, "momentum": 0.75, "nesterov": true, "weight_decay": 0.1)")},
           {"Adagrad", of("Adagrad", R"(, "lr_decay": 0.125, "initial_accumulator_value": 0.5)")},
           {"RMSprop", of("RMSprop", R"(, "alpha": 0.9, "eps": 1e-6)")},
           {"RMSprop with momentum", of("RMSprop", R"(, "momentum": 0.75, "weight_decay": 0.1)")},
           {"Lion", of("Lion", R"(, "betas": [0.9, 0.99], "weight_decay": 0.1)")},
           {"Lamb", of("Lamb", R"(, "weight_decay": 0.1, "max_coeff": 2)")},
           {"Lamb without correction", of("Lamb", R"(, "bias_correction": false, "min_coeff": 0.25, "eps": 1e-6)")},
           {"OneBitAdam", of("OneBitAdam", R"(, "weight_decay": 0.1, "freeze_step": 2)")},
           {"a rule of its own", ""},
           {"Muon", of("Muon", R"(, "adam_lr": 0.003, "weight_decay": 0.1)")},
           {"Muon without Nesterov",
            of("Muon", R"(, "momentum": 0.25, "nesterov": false, "ns_steps": 2, "adjust_lr_fn": "match_rms_adamw")")},
           {"Muon by Gram matrices", of("Muon", R"(, "adam_lr": 0.003, "ns_method": "gram")")}}};
}

Option scheduler() {
  auto const of = [](char const* type, char const* params) {
    return fmt::format(R"({{"scheduler": {{"type": "{}", "params": {{{}}}}}}})", type, params);
  };
  return {
      "scheduler",
      Role::decides,
      {{"-", ""},
       {"WarmupLR", of("WarmupLR", R"("warmup_num_steps": 3)")},
       {"WarmupLR, linear", of("WarmupLR", R"("warmup_num_steps": 2, "warmup_min_lr": 0.001,
              "warmup_type": "linear")")},
       {"WarmupDecayLR", of("WarmupDecayLR", R"("warmup_num_steps": 2, "total_num_steps": 5,
              "warmup_max_lr": 0.02)")},
       {"WarmupCosineLR", of("WarmupCosineLR", R"("warmup_num_steps": 2, "total_num_steps": 6,
              "warmup_min_ratio": 0.1)")},
       {"WarmupCosineLR, not to nothing", of("WarmupCosineLR", R"("warmup_num_steps": 2, "total_num_steps": 4,
              "cos_min_ratio": 0.25)")},
       {"OneCycle", of("OneCycle", R"("cycle_min_lr": 0.001, "cycle_max_lr": 0.02, "cycle_first_step_size": 2,
              "decay_step_size": 1, "decay_lr_rate": 0.1, "cycle_momentum": false)")},
       {"OneCycle by stairs", of("OneCycle", R"("cycle_min_lr": 0.001, "cycle_max_lr": 0.02, "cycle_first_step_size": 2,
              "cycle_second_step_size": 3, "cycle_first_stair_count": 2, "cycle_second_stair_count": 1,
              "cycle_momentum": false)")},
       {"LRRangeTest, evenly", of("LRRangeTest", R"("lr_range_test_step_size": 2, "lr_range_test_min_lr": 0.002,
              "lr_range_test_step_rate": 0.5)")},
       {"LRRangeTest", of("LRRangeTest", R"("lr_range_test_step_size": 2, "lr_range_test_staircase": true)")},
       {"ConstantLR", of("ConstantLR", R"("factor": 0.25, "total_iters": 2)")},
       {"LinearLR", of("LinearLR", R"("start_factor": 0.1, "end_factor": 0.5, "total_iters": 4)")},
       {"CosineAnnealingLR", of("CosineAnnealingLR", R"("T_max": 3, "eta_min": 0.001)")},
       {"StepLR", of("StepLR", R"("step_size": 2, "gamma": 0.5)")},
       {"MultiStepLR", of("MultiStepLR", R"("milestones": [1, 3])")},
       {"ExponentialLR", of("ExponentialLR", R"("gamma": 0.75)")}}};
}

Option pipeline_schedule() {
  auto const of = [](char const* name, char const* more = "") {
    return fmt::format(R"({{"zeroth": {{"pipeline": {{"schedule": "{}"{}}}}}}})", name, more);
  };
  auto const interleaved = of("interleaved_1f1b", R"(, "chunks": 2)");
  return {"zeroth.pipeline.schedule",
          Role::moves,
          {{"-", ""},
           {"gpipe", of("gpipe")},
           {"1f1b", of("1f1b")},
           {"zb_h1", of("zb_h1")},
           {"interleaved_1f1b of 2", interleaved},  // the number of stages must divide the micro-steps of a step
           {"interleaved_1f1b of 3", interleaved}}};
}

Option pipeline_partition() {
  auto option = key("zeroth.pipeline.partition", Role::moves, {"-", "\"parameters\"", "\"units\"", "\"flops\""});
  option.values.push_back({"first_units", ""});  // depends on the drawn model: see stage_file()
  return option;
}

std::vector<Option> all_options() {
  auto const decides = Role::decides;
  auto const moves = Role::moves;
  std::string const zero = "zero_optimization.";
  std::string const states = zero + "offload_optimizer.";
  std::string const parameters = zero + "offload_param.";
  return {
      call("ranks", decides, {"2", "1", "3", "4", "5", "6"}),
      call("ranks that go on", decides, {"as many", "1", "2", "3", "4", "5", "6"}),
      key("zeroth.mesh.tensor", decides, {"-", "1", "2", "3", "4"}),
      call("tensor ranks that go on", decides, {"as many", "1", "2", "3", "4"}),
      call("ranks of the reference", decides, {"as many", "one", "most"}),
      types(),
      call("fp32 parameters", decides, {"none", "some", "all"}),
      optimizer(),
      scheduler(),
      key("train_micro_batch_size_per_gpu", decides, {"2", "1", "3"}),
      key("gradient_accumulation_steps", decides, {"-", "2", "3"}),
      key("gradient_clipping", decides, {"-", "0", "0.05", "0.5"}),
      key("zeroth.skip_nonfinite", decides, {"-", "true", "false"}),
      key("zeroth.stochastic_rounding_seed", decides, {"-", "7"}),
      key(zero + "stage3_param_persistence_threshold", decides, {"-", "1", "300", "100000", "\"auto\""}),
      key(zero + "stage3_model_persistence_threshold", decides, {"-", "0", "500"}),
      key(zero + "stage3_gather_16bit_weights_on_model_save", decides, {"-", "true"}),
      call("zeroth.reduce_gradients", decides, {"-", "every_micro_step", "last_micro_step"}),
      key("zeroth.reduce_codec", decides, {"-", "\"exact\"", "\"int8\"", "\"int4\"", "\"sign\"", "\"none\""}),
      key("zeroth.gather_codec", decides, {"-", "\"int8\"", "\"none\""}),
      call("zeroth.tied_gradients", decides, {"-", "apart", "together"}),
      key("zeroth.same_bits_at_any_ranks", decides, {"-", "true", "false"}),
      {"zeroth.ema.decay",
       decides,
       {{"-", ""}, {"0.75", R"({"zeroth": {"ema": {"decay": 0.75}}})"}, {"0", R"({"zeroth": {"ema": {"decay": 0}}})"}}},
      key("zeroth.delayed_update", decides, {"-", "true", "false"}),
      call("groups", decides, {"none", "zero_hpz_partition_size", "mics_shard_size", "group_size"}),
      call("size of groups", decides, {"some", "one", "all"}),
      call("zeroth.two_level_sums", decides, {"-", "true"}),

      key(zero + "stage", moves, {"3", "0", "1", "2"}),
      key(zero + "reduce_bucket_size", moves, {"-", "1", "777", "3000", "\"auto\""}),
      key(zero + "overlap_comm", moves, {"-", "true", "false"}),
      key(zero + "stage3_prefetch_bucket_size", moves, {"-", "0", "1", "1000", "\"auto\""}),
      key(zero + "stage3_max_live_parameters", moves, {"-", "0", "2000"}),
      key("zeroth.gradient_slots", moves, {"-", "1", "2", "3", "5"}),
      key("zeroth.single_communicator", moves, {"-", "true"}),
      key("zeroth.check", moves, {"-", "true"}),
      key("zeroth.poison", moves, {"-", "true"}),
      key("zeroth.replay_every", moves, {"-", "0", "1", "2"}),
      key("zeroth.mesh.pipeline", moves, {"-", "1", "2", "3"}),
      key("zeroth.parameter_server.servers", moves, {"-", "1", "2", "3"}),
      key("zeroth.parameter_server.staleness", moves, {"-", "0", "1", "3"}),
      pipeline_schedule(),
      pipeline_partition(),

      call("states", moves, {"in memory", "on a disk", "on the host"}),
      key(states + "ratio", moves, {"-", "0.5", "0.3", "0"}),
      key(states + "buffer_count", moves, {"-", "1", "16"}),
      key(states + "pipeline_read", moves, {"-", "true", "false"}),
      key(states + "pipeline_write", moves, {"-", "true", "false"}),
      key(zero + "sub_group_size", moves, {"-", "0", "1", "2048", "4096"}),
      call("parameters", moves, {"in memory", "on a disk", "on the host"}),
      key(parameters + "max_in_cpu", moves, {"0", "700", "-"}),
      key(parameters + "buffer_size", moves, {"-", "0", "2048", "4096"}),
      key(parameters + "buffer_count", moves, {"-", "1", "3"}),
      key("aio.block_size", moves, {"-", "4096", "8192"}),
      key("aio.queue_depth", moves, {"-", "1", "3"}),
      key("aio.intra_op_parallelism", moves, {"-", "2"}),
      call("disk", moves, {"in memory", "even", "slow"}),
      call("communicator", moves, {"even", "late"}),

      key("steps_per_print", moves, {"-", "1", "2"}),
      key("wall_clock_breakdown", moves, {"-", "true"}),
      key("memory_breakdown", moves, {"-", "true"}),
      key("dump_state", moves, {"-", "true"}),
      {"comms_logger",
       moves,
       {{"-", ""},
        {"enabled", R"({"comms_logger": {"enabled": true}})"},
        {"verbose", R"({"comms_logger": {"enabled": true, "verbose": true}})"}}},
      {"flops_profiler",
       moves,
       {{"-", ""},
        {"enabled", R"({"flops_profiler": {"enabled": true}})"},
        {"short", R"({"flops_profiler": {"enabled": true, "profile_step": 3, "detailed": false,
            "recompute_fwd_factor": 0.5, "output_file": "flops.txt"}})"}}},
      {"csv_monitor",
       moves,
       {{"-", ""},
        {"enabled", R"({"csv_monitor": {"enabled": true}})"},
        {"named", R"({"csv_monitor": {"enabled": true, "job_name": "drawn"}})"}}},
      {"tensorboard",
       moves,
       {{"-", ""},
        {"enabled", R"({"tensorboard": {"enabled": true}})"},
        {"named", R"({"tensorboard": {"enabled": true, "job_name": "drawn"}})"}}},
      {"wandb",
       moves,
       {{"-", ""},
        {"enabled", R"({"wandb": {"enabled": true}})"},
        {"named", R"({"wandb": {"enabled": true, "group": "drawn", "team": "jobs", "project": "random"}})"}}},
      key("activation_checkpointing.number_checkpoints", moves, {"-", "2"}),
      key("zeroth.activation_checkpointing.units", moves, {"-", "\"all\"", "\"every 2\"", "\"none\""}),
      {"zeroth.activation_checkpointing.offload",
       moves,
       {{"-", ""},
        {"cpu", R"({"zeroth": {"activation_checkpointing": {"offload": "cpu"}}})"},
        {"nvme", R"({"zeroth": {"activation_checkpointing": {"offload": "nvme", "nvme_path": "."}}})"}}},
      {"zeroth.sparse_attention",
       moves,
       {{"-", ""}, {"bigbird", R"({"zeroth": {"sparse_attention": {"mode": "bigbird", "num_random_blocks": 2}}})"}}},
      key("zeroth.offload_update", moves, {"-", "\"device\""}),
      key("zeroth.copy_engine_gather", moves, {"-", "true"}),
      key("zeroth.register_memory", moves, {"-", "false", "true"}),
      {"without effect",
       moves,
       {{"-", ""},
        {"some",
         R"({"zero_optimization": {"reduce_scatter": false, "contiguous_gradients": false, "allgather_bucket_size": 3,
            "round_robin_gradients": true, "stage3_max_reuse_distance": 1}, "checkpoint": {"load_universal": true}})"}}},
      key("zeroth.strict", moves, {"-", "true", "false"}),
      call("batch sizes", moves,
           {"micro-batch", "all three", "train batch and micro-batch", "train batch and accumulation", "train batch"}),
      call("words", moves, {"today's", "older"}),
      key("zeroth.checkpoint.buffer_bytes", moves, {"-", "8388608"}),
      key("zeroth.checkpoint.direct_io", moves, {"-", "false"}),
      key("zeroth.checkpoint.keep", moves, {"-", "1", "2"}),

      call("nested guards", moves, {"none", "root", "neighbours"}),
      call("reshards after forward", moves, {"all", "some", "none"}),
      call("order", moves, {"declared", "another"}),
      call("skips units", decides, {"never", "at once", "in its turn", "after forward"}),
      call("skips micro-steps", decides, {"never", "at times"}),
      call("weights of losses", decides, {"one", "any", "zero at times"}),
      call("overflow", decides, {"never", "infinite", "NaN"}),
      call("given rate", decides, {"never", "at times"}),
      call("random numbers", decides, {"none", "masks"}),
      call("metrics", decides, {"none", "two"}),
      call("evaluates", decides, {"never", "between steps", "between micro-steps"}),
      call("reads", decides, {"never", "between steps", "between micro-steps"}),
      call("writes", decides, {"never", "at times"}),
      call("weight file", decides, {"none", "saved and loaded"}),
      call("rate factors", decides, {"as declared", "changed"}),
      call("gradient edits", decides, {"none", "clipped by value"}),
      call("gradient norm", decides, {"not asked", "ahead of the update", "of a parameter", "before an evaluation"}),
      call("sequence parallelism", moves, {"no", "yes"}),
      call("backward", moves, {"on this thread", "on a new one"}),
      call("finish", moves, {"in the end", "at times"}),
      call("trace", moves, {"none", "all steps", "a step"}),
      call("own monitor", moves, {"none", "one"}),
      call("saves", moves, {"in the end", "waiting", "beside training", "one after another"}),
      call("keeps", moves, {"what the file says", "one", "every second", "of the last hour"}),
      call("program state", moves, {"none", "a byte", "pages", "the largest"}),
      call("rank state", moves, {"none", "of each rank"}),
      call("data", moves, {"untold", "told"}),
      call("stop", moves, {"never", "asked for"}),
      call("goes on", moves, {"never", "in the same engine", "in a new engine", "at another stage"}),
      call("goes on from", moves, {"a path", "the latest"}),
  };
}

bool has(std::vector<std::string_view> const& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool concerns(Rule const& rule, std::size_t value) {
  auto const& name = options()[option_named(rule.option)].values[value].name;
  return rule.values.empty() ? value != 0 : has(rule.values, name);
}

std::size_t value_named(std::size_t option, std::string_view name) {
  auto const& values = options()[option].values;
  auto const at = std::ranges::find(values, name, &Value::name);
  if (at == values.end()) {
    throw std::logic_error{fmt::format("{} has no value {}", options()[option].name, name)};
  }
  return static_cast<std::size_t>(at - values.begin());
}

}  // namespace

std::vector<Option> const& options() {
  static auto const all = all_options();
  return all;
}

std::size_t option_named(std::string_view name) {
  auto const at = std::ranges::find(options(), name, &Option::name);
  if (at == options().end()) {
    throw std::logic_error{fmt::format("there is no option {}", name)};
  }
  return static_cast<std::size_t>(at - options().begin());
}

Choice::Choice() : values_(options().size(), 0) {}

std::string_view Choice::operator[](std::string_view option) const {
  auto const at = option_named(option);
  return options()[at].values[values_[at]].name;
}

void Choice::set(std::string_view option, std::string_view value) {
  auto const at = option_named(option);
  values_[at] = value_named(at, value);
}

void Choice::settle() { settle(*this, std::vector<bool>(options().size())); }

void Choice::settle(Choice const& before, std::vector<bool> kept) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto const& rule : rules()) {
      auto const option = option_named(rule.option);
      if (concerns(rule, values_[option]) && !has(rule.allowed, (*this)[rule.needed])) {
        auto const needed = option_named(rule.needed);
        if (kept[option] && values_[needed] != before.values_[needed]) {
          values_[needed] = before.values_[needed];
          kept[needed] = true;
        } else {
          values_[option] = 0;
        }
        changed = true;
      }
    }
  }
}

bool takes_pipelines(Choice const& choice) {
  auto with = choice;
  with.set("zeroth.mesh.pipeline", choice.is_plain("zeroth.mesh.pipeline") ? "2" : choice["zeroth.mesh.pipeline"]);
  with.settle();
  with.set("zeroth.mesh.pipeline", choice["zeroth.mesh.pipeline"]);
  return with.values() == choice.values();
}

bool go_together(std::size_t option, std::size_t value, std::size_t other, std::size_t other_value) {
  std::vector<std::optional<std::size_t>> fixed(options().size());
  fixed[option] = value;
  fixed[other] = other_value;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto const& rule : rules()) {
      auto const& has_value = fixed[option_named(rule.option)];
      if (!has_value || !concerns(rule, *has_value)) {
        continue;
      }
      auto const at = option_named(rule.needed);
      if (!fixed[at]) {
        fixed[at] = value_named(at, rule.allowed.front());
        changed = true;
      } else if (!has(rule.allowed, options()[at].values[*fixed[at]].name)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace zeroth::testing::jobs
