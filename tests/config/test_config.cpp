// SPDX-License-Identifier: Apache-2.0
/// From a well-formed file to settings.
#include <limits>
#include <thread>

#include "config/config_support.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace zeroth {
namespace {

using Catch::Contains;
using testing::problems_of;
using testing::settings_of;
using testing::thrown;

TEST_CASE("Every key has its effect on the settings") {
  auto const settings = settings_of(R"(
    "gradient_accumulation_steps": 2, "gradient_clipping": 0.5, "communication_data_type": "FP32",
    "data_types": {"grad_accum_dtype": "float32", "param_dtype": "half"},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 11, "overlap_comm": true, "stage3_prefetch_bucket_size": 12,
                          "stage3_max_live_parameters": 13},
    "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 4, "loss_scale_window": 5, "hysteresis": 3,
             "consecutive_hysteresis": true, "min_loss_scale": 2},
    "optimizer": {"type": "adam", "params": {"lr": 0.25, "betas": [0.5, 0.75], "eps": 0.125, "weight_decay": 0.0625,
                                             "bias_correction": false, "adam_w_mode": false}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0.5, "warmup_max_lr": 2.0,
                  "warmup_num_steps": 6, "warmup_type": "linear", "total_num_steps": 60}},
    "zeroth": {"gradient_dtype": "fp32", "reduce_gradients": "last_micro_step", "gradient_slots": 7, "timeout_ms": 8,
               "check": true, "poison": true, "flight_recorder": "a/folder"})");
  CHECK(settings.stage == 2);
  CHECK(settings.batch.accumulation == 2);
  CHECK(settings.batch.micro == 4);
  CHECK(settings.precision.compute == Dtype::fp16);
  CHECK(settings.precision.gradient == Dtype::fp32);
  CHECK(settings.precision.reduce == Dtype::fp32);
  CHECK(settings.precision.accumulate == Dtype::fp32);
  CHECK(settings.reduce_gradients == ReduceGradients::last_micro_step);
  CHECK(settings.reduce_bucket_count == 11);
  CHECK(settings.prefetch_count == 12);
  CHECK(settings.max_live_count == 13);
  CHECK(settings.gradient_slots == 7);
  CHECK(settings.overlap_comm);
  CHECK(settings.timeout == std::chrono::milliseconds{8});
  CHECK(settings.check);
  CHECK(settings.poison);
  CHECK(settings.flight_recorder == "a/folder");

  auto const& rules = settings.rules;
  CHECK(rules.clip == 0.5F);
  CHECK(rules.skip_nonfinite);
  CHECK(rules.gradient_prescale == 1);
  auto const& adam = std::get<optim::Adam>(settings.update.rule);
  CHECK(adam.beta1 == 0.5F);
  CHECK(adam.beta2 == 0.75F);
  CHECK(adam.epsilon == 0.125F);
  CHECK(adam.weight_decay == 0.0625F);
  CHECK_FALSE(adam.decoupled_decay);
  CHECK_FALSE(adam.bias_correction);
  CHECK(rules.loss_scale.dynamic);
  CHECK(rules.loss_scale.initial == 16);
  CHECK(rules.loss_scale.minimum == 2);
  CHECK(rules.loss_scale.window == 5);
  CHECK(rules.loss_scale.hysteresis == 3);
  CHECK(rules.loss_scale.consecutive_hysteresis);
  CHECK(rules.schedule.kind == optim::ScheduleKind::warmup_decay);
  CHECK(rules.schedule.warmup == optim::WarmupKind::linear);
  CHECK(rules.schedule.base == 0.25F);
  CHECK(rules.schedule.warmup_min == 0.5F);
  CHECK(rules.schedule.warmup_max == 2.0F);
  CHECK(rules.schedule.warmup_steps == 6);
  CHECK(rules.schedule.total_steps == 60);
}

TEST_CASE("A schedule takes its rates from the optimizer if DeepSpeed's does") {
  auto const schedule = [](std::string const& scheduler) {
    return settings_of(R"("optimizer": {"type": "AdamW", "params": {"lr": 0.5}})" + scheduler).rules.schedule;
  };
  auto const constant = schedule("");
  CHECK(constant.kind == optim::ScheduleKind::constant);
  CHECK(constant.base == 0.5F);

  auto const warmup = schedule(R"(, "scheduler": {"type": "WarmupLR"})");
  CHECK(warmup.kind == optim::ScheduleKind::warmup);
  CHECK(warmup.warmup == optim::WarmupKind::logarithmic);
  CHECK(warmup.warmup_min == 0);
  CHECK(warmup.warmup_max == 0.5F);
  CHECK(warmup.warmup_steps == 1000);

  auto const decay = schedule(R"(, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 2000}})");
  CHECK(decay.kind == optim::ScheduleKind::warmup_decay);
  CHECK(decay.warmup_max == 1e-3F);
  CHECK(decay.total_steps == 2000);

  auto const cosine = schedule(R"(, "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 2000,
                                  "warmup_min_ratio": 0.25, "cos_min_ratio": 0.125}})");
  CHECK(cosine.kind == optim::ScheduleKind::warmup_cosine);
  CHECK(cosine.base == 0.5F);
  CHECK(cosine.warmup_min_ratio == 0.25F);
  CHECK(cosine.cosine_min_ratio == 0.125F);
}

TEST_CASE("Adam is AdamW unless adam_w_mode is false") {
  auto const decoupled = [](char const* type, char const* mode) {
    auto const settings = settings_of(fmt::format(R"("optimizer": {{"type": "{}", "params": {{{}}}}})", type, mode));
    return std::get<optim::Adam>(settings.update.rule).decoupled_decay;
  };
  CHECK(decoupled("AdamW", ""));
  CHECK(decoupled("adamw", R"("adam_w_mode": true)"));
  CHECK(decoupled("Adam", ""));
  CHECK_FALSE(decoupled("ADAM", R"("adam_w_mode": false)"));
}

TEST_CASE("Overlap, slots and the time of reduction are derived from the stage and from each other") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const of_stage = [&](std::string const& more) {
      return settings_of(fmt::format(R"("zero_optimization": {{"stage": {}{}}})", stage, more));
    };
    auto const settings = of_stage("");
    CHECK(settings.stage == stage);
    CHECK(settings.overlap_comm == (stage == 3));
    CHECK(settings.gradient_slots == (stage == 3 ? 2 : 1));
    CHECK(settings.reduce_gradients ==
          (stage >= 2 ? ReduceGradients::every_micro_step : ReduceGradients::last_micro_step));
    CHECK(of_stage(R"(, "overlap_comm": true)").gradient_slots == 2);
    CHECK(of_stage(R"(, "overlap_comm": false)").gradient_slots == 1);
    CHECK(of_stage(R"(, "overlap_comm": null)").overlap_comm == (stage == 3));
    for (auto const* const when : {"every_micro_step", "last_micro_step"}) {
      auto const set = settings_of(
          fmt::format(R"("zero_optimization": {{"stage": {}}}, "zeroth": {{"reduce_gradients": "{}"}})", stage, when));
      CHECK((set.reduce_gradients == ReduceGradients::every_micro_step) == (when[0] == 'e'));
    }
  }
}

TEST_CASE("Numbers have the same value in any notation") {
  auto const bucket = [](char const* number) {
    return settings_of(fmt::format(R"("zero_optimization": {{"stage3_prefetch_bucket_size": {}}})", number))
        .prefetch_count;
  };
  CHECK(bucket("5e8") == 500'000'000);
  CHECK(bucket("5.0E+2") == 500);
  CHECK(bucket("0") == 0);
  CHECK(bucket("-0.0") == 0);
  CHECK(bucket("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(bucket(R"("500")") == 500);  // as in DeepSpeed, only in zero_optimization
  CHECK(bucket(R"("5.0")") == 5);
  CHECK(settings_of(R"("zero_optimization": {"stage": "2"})").stage == 2);
  CHECK(bucket("9007199254740993") == 9007199254740993);  // not a double
  CHECK(settings_of(R"("gradient_clipping": 2)").rules.clip == 2);
  auto const update = settings_of(R"("optimizer": {"type": "Adam", "params": {"betas": [0, 0.5]}})").update;
  CHECK(std::get<optim::Adam>(update.rule).beta1 == 0);
}

TEST_CASE("\"auto\" is the largest unit's size for element counts, and the default for keys that nothing depends on") {
  auto const settings = settings_of(
      R"("zero_optimization": {"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                               "stage3_param_persistence_threshold": "auto", "overlap_comm": "auto"},
         "gradient_clipping": "auto", "optimizer": {"type": "AdamW", "params": {"lr": 0.5, "betas": "auto"}},
         "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}, "steps_per_print": "auto")",
      2, 777);
  CHECK(settings.reduce_bucket_count == 777);
  CHECK(settings.prefetch_count == 777);
  CHECK(settings.rules.clip == 1);
  CHECK(settings.rules.schedule.warmup_max == 0.5F);
  CHECK(settings.persistence.param_count == 0);
}

TEST_CASE(
    "Thresholds of persistent parameters are element counts, under either name, and no parameter persists by default") {
  auto const by = [](char const* members) {
    return settings_of(fmt::format(R"("zero_optimization": {{"stage": 3, {}}})", members)).persistence;
  };
  CHECK(by(R"("overlap_comm": true)").param_count == 0);
  auto const plain = by(R"("stage3_param_persistence_threshold": 1e5)");
  CHECK(plain.param_count == 100'000);
  CHECK(plain.model_count == std::numeric_limits<std::int64_t>::max());
  auto const both = by(R"("param_persistence_threshold": 7, "model_persistence_threshold": 9223372036854775807)");
  CHECK(both.param_count == 7);
  CHECK(both.model_count == std::numeric_limits<std::int64_t>::max());
  CHECK(by(R"("stage3_model_persistence_threshold": "auto")").model_count == both.model_count);
}

TEST_CASE("Comments and a byte-order mark are skipped") {
  CHECK(Config::from_json("\xef\xbb\xbf// first\n{/* a */\"train_batch_size\"/* b */: // c\n 4 /**/}\n// last")
            .settings(1, 1)
            .batch.train == 4);
}

TEST_CASE("An alias has the effect of its key") {
  auto const settings = settings_of(R"("bfloat16": {"enabled": true},
                                       "zero_optimization": {"prefetch_bucket_size": 21, "max_live_parameters": 22})");
  CHECK(settings.precision.compute == Dtype::bf16);
  CHECK(settings.prefetch_count == 21);
  CHECK(settings.max_live_count == 22);
}

TEST_CASE("DeepSpeed's other keys are accepted if they ask for what Zeroth does anyway") {
  CHECK(problems_of(testing::file_with(R"(
    "steps_per_print": null, "wall_clock_breakdown": false, "zero_allow_untested_optimizer": true,
    "gradient_predivide_factor": 1, "gradient_allreduce_op": "mean", "prescale_gradients": false,
    "tensorboard": {"output_path": "x", "enabled": false}, "aio": {"block_size": 1048576, "use_gds": false}, "amp": {"enabled": false, "opt_level": "auto"},
    "timers": {"throughput": {"enabled": false, "synchronized": true}},
    "zero_optimization": {"stage": 3, "contiguous_gradients": true, "reduce_scatter": true, "allgather_partitions": true,
      "offload_optimizer": {"device": "none", "pin_memory": true}, "offload_param": null, "mics_shard_size": -1,
      "stage3_param_persistence_threshold": 0.0, "gather_16bit_weights_on_model_save": false},
    "fp16": {"auto_cast": false}, "optimizer": {"type": "Adam", "params": {"torch_adam": false, "amsgrad": false}},
    "activation_checkpointing": {"partition_activations": false, "number_checkpoints": null}
  )")) == "");
}

TEST_CASE("Offload has DeepSpeed's defaults, but for the pipeline, which follows overlap_comm") {
  auto const offload = [](char const* members) { return settings_of(members, 2).offload; };
  auto const none = offload("");
  CHECK(none.optimizer == OffloadDevice::none);
  CHECK(none.parameters == OffloadDevice::none);
  auto const plain =
      offload(R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}})");
  CHECK(plain.optimizer == OffloadDevice::nvme);
  CHECK(plain.folder == "/nvme");
  CHECK(plain.ratio == 1);
  CHECK(plain.buffer_count == 4);
  CHECK(plain.read_ahead);
  CHECK(plain.write_behind);
  CHECK(plain.tile_count == 1'000'000'000);
  CHECK(plain.piece_bytes == 1 << 20);
  CHECK(plain.requests == 8);
  CHECK(plain.update == OffloadUpdate::device);
  for (auto const* const to_cpu : {R"("cpu_offload": true)", R"("offload_optimizer": {"device": "cpu"})"}) {
    auto const by_host =
        offload(fmt::format(R"("zero_optimization": {{{}}}, "zeroth": {{"offload_update": "host"}})", to_cpu).c_str());
    CHECK(by_host.optimizer == OffloadDevice::cpu);
    CHECK(by_host.update == OffloadUpdate::host);
    CHECK(by_host.update_threads == 1);
  }
  auto const other = offload(
      R"("zero_optimization": {"stage": 1, "sub_group_size": 4096, "offload_optimizer": {"device": "nvme",
         "nvme_path": "x", "ratio": 0.25, "buffer_count": 9, "pipeline_write": true, "pin_memory": true}},
         "aio": {"block_size": 8192, "queue_depth": 3, "thread_count": 2, "single_submit": false, "overlap_events": true})");
  CHECK(other.ratio == 0.25);
  CHECK(other.buffer_count == 9);
  CHECK_FALSE(other.read_ahead);
  CHECK(other.write_behind);
  CHECK(other.tile_count == 4096);
  CHECK(other.piece_bytes == 8192);
  CHECK(other.requests == 6);
  CHECK(offload(R"("zero_optimization": {"stage": 3, "offload_optimizer": null, "offload_param": {"device": "cpu",
                   "buffer_size": 1e8, "buffer_count": 5, "max_in_cpu": 1e9, "pin_memory": false}})")
            .parameters == OffloadDevice::cpu);
  auto const of_parameters = offload(
      R"("zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/nvme", "pin_memory": true}})");
  CHECK(of_parameters.parameters == OffloadDevice::nvme);
  CHECK(of_parameters.parameter_folder == "/nvme");
  CHECK(of_parameters.parameter_buffers == 5);
  CHECK(of_parameters.parameter_buffer_count == 100'000'000);
  CHECK(of_parameters.parameters_in_memory_count == 1'000'000'000);
  auto const small = offload(
      R"("zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "x", "buffer_count": 2,
         "buffer_size": 4e6, "max_in_cpu": 0}})");
  CHECK(small.parameter_buffers == 2);
  CHECK(small.parameter_buffer_count == 4'000'000);
  CHECK(small.parameters_in_memory_count == 0);
}

TEST_CASE("Groups come from DeepSpeed's keys or zeroth.group_size, and otherwise contain all ranks") {
  auto const groups = [](char const* members) { return settings_of(members, 8).groups; };
  auto const none = groups("");
  CHECK(none.size == 8);
  CHECK(none.count == 1);
  auto const hpz = groups(R"("zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4, "mics_shard_size": -1})");
  CHECK(hpz.size == 4);
  CHECK(hpz.count == 2);
  CHECK(hpz.cut_parameters);
  CHECK_FALSE(hpz.cut_states);
  CHECK_FALSE(hpz.two_level_sums);
  auto const mics = groups(R"("zero_optimization": {"stage": 1, "mics_shard_size": 2}, "zeroth": {"group_size": 2})");
  CHECK(mics.size == 2);
  CHECK(mics.count == 4);
  CHECK(mics.cut_parameters);
  CHECK(mics.cut_states);
  auto const sums = groups(R"("zeroth": {"two_level_sums": true, "group_size": 8})");
  CHECK(sums.size == 8);
  CHECK(sums.two_level_sums);
  CHECK_FALSE(sums.cut_parameters);
}

TEST_CASE("Gradients of ties are by default summed apart in a pipeline, and together elsewhere") {
  auto const ties = [](char const* members) {
    return settings_of(fmt::format(R"("zeroth": {{{}}})", members), 1).pipeline.tied_gradients;
  };
  CHECK(ties("") == TiedGradients::together);
  CHECK(ties(R"("mesh": {"pipeline": 1})") == TiedGradients::together);
  CHECK(ties(R"("mesh": {"pipeline": 2})") == TiedGradients::apart);
  CHECK(ties(R"("tied_gradients": "apart")") == TiedGradients::apart);
  CHECK(ties(R"("mesh": {"pipeline": 2}, "tied_gradients": "together")") == TiedGradients::together);
}

TEST_CASE("A pipeline's schedule, chunks and partition come from the file, and must fit together") {
  auto const pipeline = [](char const* members) {
    return settings_of(fmt::format(R"("gradient_accumulation_steps": 4, "zeroth": {{{}}})", members), 1).pipeline;
  };
  auto const none = pipeline("");
  CHECK(none.stages == 1);
  CHECK(none.schedule == PipelineSchedule::one_forward_one_backward);
  CHECK(none.partition == PipelinePartition::parameters);
  CHECK(none.all_chunks() == 1);
  auto const chunks = pipeline(
      R"("mesh": {"pipeline": 2}, "pipeline": {"schedule": "interleaved_1f1b", "chunks": 3, "partition": "flops"})");
  CHECK(chunks.schedule == PipelineSchedule::interleaved);
  CHECK(chunks.all_chunks() == 6);
  CHECK(chunks.partition == PipelinePartition::flops);
  CHECK(pipeline(R"("pipeline": {"schedule": "zb_h1", "partition": "units"})").schedule ==
        PipelineSchedule::zero_bubble);
  auto const file = pipeline(R"("pipeline": {"schedule": "file", "schedule_file": "s.csv", "chunks": 2})");
  CHECK(file.schedule_file == "s.csv");
  CHECK(file.all_chunks() == 1);  // one stage has one chunk

  auto const named = pipeline(R"("mesh": {"pipeline": 2}, "pipeline": {"first_units": [0, 3]})");
  CHECK(named.first_units == std::vector<std::uint32_t>{0, 3});
  CHECK(pipeline(R"("pipeline": {"first_units": [0]})").first_units == std::vector<std::uint32_t>{0});

  auto const refused = [&](char const* members) { return thrown<ConfigError>([&] { pipeline(members); }); };
  CHECK_THAT(refused(R"("pipeline": {"schedule": "interleaved_1f1b"})"),
             Contains("zeroth.pipeline.chunks: 1, but zeroth.pipeline.schedule \"interleaved_1f1b\" alternates"));
  CHECK_THAT(
      refused(R"("pipeline": {"schedule": "zb_h1", "chunks": 2})"),
      Contains("zeroth.pipeline.chunks (line 1): 2, but zeroth.pipeline.schedule \"zb_h1\" has one chunk per stage"));
  CHECK_THAT(
      refused(R"("mesh": {"pipeline": 3}, "pipeline": {"schedule": "interleaved_1f1b", "chunks": 2})"),
      Contains(
          "every 3 micro-steps (zeroth.mesh.pipeline), but gradient_accumulation_steps is 4; allowed: multiples of 3"));
  CHECK_THAT(refused(R"("pipeline": {"schedule": "file"})"),
             Contains("zeroth.pipeline.schedule_file: is missing, but zeroth.pipeline.schedule is \"file\""));
  CHECK_THAT(refused(R"("pipeline": {"schedule_file": "s.csv"})"),
             Contains("zeroth.pipeline.schedule_file (line 1): is set, but zeroth.pipeline.schedule is \"1f1b\""));
}

TEST_CASE("The list of first units must fit the number of chunks") {
  auto const refused = [](char const* first_units, char const* more = "") {
    return thrown<ConfigError>([&] {
      settings_of(fmt::format(R"("zeroth": {{"mesh": {{"pipeline": 3}}, "pipeline": {{"first_units": {}{}}}}})",
                              first_units, more),
                  3);
    });
  };
  std::string const key = "zeroth.pipeline.first_units (line 1): ";
  CHECK_THAT(refused("[0, 2]"), Contains(key + "has length 2, but zeroth.mesh.pipeline is 3 and zeroth.pipeline.chunks "
                                               "is 1; allowed: 3 units, one for each chunk"));
  CHECK_THAT(refused("[]"), Contains(key + "has length 0"));
  CHECK_THAT(refused("[1, 2, 3]"), Contains(key + "begins with 1; allowed: 0, the model's first unit"));
  CHECK_THAT(refused("[0, 2, 2]"), Contains(key + "has 2 after 2; allowed: increasing numbers"));
  CHECK_THAT(refused("[0, 2, 5]", R"(, "partition": "flops")"),
             Contains(key + "is set, but so is zeroth.pipeline.partition; set one of them"));
  CHECK_THAT(refused("[0, 2, -1]"), Contains(key + "-1 is out of range in [0, 2, -1]; allowed"));
  CHECK_THAT(refused("[0, 2.5, 3]"), Contains("2.5 is not a whole number in [0, 2.5, 3]"));
  CHECK_THAT(refused("\"0, 2\""), Contains(key + "\"0, 2\" is a string; allowed: an array of integers, each"));
}

TEST_CASE("Loss is scaled for fp16 only") {
  auto const fp16 = [](char const* more) {
    return settings_of(fmt::format(R"("fp16": {{"enabled": true{}}})", more)).rules;
  };
  CHECK(fp16("").loss_scale.dynamic);
  CHECK(fp16("").loss_scale.initial == 65536);
  CHECK(fp16("").skip_nonfinite);
  auto const fixed = fp16(R"(, "loss_scale": 128)");
  CHECK_FALSE(fixed.loss_scale.dynamic);
  CHECK(fixed.loss_scale.initial == 128);
  CHECK(fixed.skip_nonfinite);
  CHECK(fp16(R"(, "initial_scale_power": 126)").loss_scale.initial == 0x1p126F);

  for (auto const* const members : {"", R"("bf16": {"enabled": true})", R"("fp16": {"loss_scale": 64})"}) {
    auto const rules = settings_of(members).rules;
    CHECK_FALSE(rules.loss_scale.dynamic);
    CHECK(rules.loss_scale.initial == 1);
  }
  CHECK(settings_of(R"("bf16": {"enabled": true})").rules.skip_nonfinite);
  CHECK_FALSE(settings_of(R"("bf16": {"enabled": true, "check_grad_overflow": false})").rules.skip_nonfinite);
  CHECK_FALSE(settings_of("").rules.skip_nonfinite);
}

TEST_CASE("Updates that are not finite are skipped in 16 bits, and if the file says so") {
  auto const skips = [](char const* value, char const* more) {
    return settings_of(fmt::format(R"("zeroth": {{"skip_nonfinite": {}}}{})", value, more)).rules.skip_nonfinite;
  };
  CHECK(skips("true", ""));
  CHECK_FALSE(skips("false", ""));
  CHECK_FALSE(skips("\"auto\"", ""));
  CHECK(skips("\"auto\"", R"(, "bf16": {"enabled": true})"));
  CHECK(skips("\"auto\"", R"(, "fp16": {"enabled": true})"));
  CHECK_FALSE(skips("false", R"(, "bf16": {"enabled": true})"));
  CHECK(skips("true", R"(, "fp16": {"enabled": true})"));
}

TEST_CASE("Threads share a Config") {
  auto const config = Config::from_json(testing::file_with(R"("zeroth": {"flight_recorder": "folder"})"));
  std::vector<Settings> settings(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : settings) {
      threads.emplace_back([&mine, copy = config] { mine = copy.settings(2, 10); });
    }
  }
  for (auto const& each : settings) {
    CHECK(each.batch.micro == 4);
    CHECK(each.flight_recorder == "folder");
  }
}

}  // namespace
}  // namespace zeroth
