// SPDX-License-Identifier: Apache-2.0
/// An empty file means the same as in DeepSpeed 0.19, and in 0.18, which had MiCS, except for the differences that are
/// listed here and in docs/config.md.
#include <map>
#include <set>

#include "config/config_support.hpp"
#include "config/keys.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

/// DeepSpeed's defaults, from its sources: runtime/config.py, constants.py, zero/config.py, precision_config.py,
/// lr_schedules.py, ops/adam; and PyTorch's, for the optimizers and schedulers that it takes from there. Null if
/// DeepSpeed computes the value, if it depends on the optimizer or on another key, or if there is none.
char const* const deepspeed = R"({
  "train_batch_size": null, "train_micro_batch_size_per_gpu": null, "gradient_accumulation_steps": null,
  "steps_per_print": null, "wall_clock_breakdown": false, "memory_breakdown": false, "dump_state": false,
  "tensorboard.enabled": false, "tensorboard.output_path": "", "tensorboard.job_name": "DeepSpeedJobName",
  "csv_monitor.enabled": false, "csv_monitor.output_path": "", "csv_monitor.job_name": "DeepSpeedJobName",
  "zero_optimization.offload_optimizer.device": "none", "zero_optimization.offload_param.device": "none",
  "zero_optimization.cpu_offload": null, "zero_optimization.cpu_offload_param": null,
  "gradient_clipping": 1.0, "communication_data_type": null,
  "data_types.grad_accum_dtype": null, "data_types.param_dtype": null,
  "zero_optimization.stage": 0, "zero_optimization.reduce_bucket_size": 500000000,
  "zero_optimization.overlap_comm": null, "zero_optimization.stage3_prefetch_bucket_size": 50000000,
  "zero_optimization.stage3_max_live_parameters": 1000000000,
  "zero_optimization.stage3_param_persistence_threshold": 100000,
  "zero_optimization.stage3_model_persistence_threshold": 9223372036854775807,
  "zero_optimization.zero_hpz_partition_size": 1, "zero_optimization.mics_shard_size": -1,
  "zero_optimization.offload_optimizer.nvme_path": null,
  "zero_optimization.offload_optimizer.ratio": 1.0, "zero_optimization.offload_optimizer.buffer_count": 4,
  "zero_optimization.offload_optimizer.pipeline_read": false, "zero_optimization.offload_optimizer.pipeline_write": false,
  "zero_optimization.offload_param.nvme_path": null, "zero_optimization.offload_param.buffer_count": 5,
  "zero_optimization.offload_param.buffer_size": 100000000, "zero_optimization.offload_param.max_in_cpu": 1000000000,
  "zero_optimization.sub_group_size": 1000000000,
  "aio.block_size": 1048576, "aio.queue_depth": 8, "aio.intra_op_parallelism": null, "aio.thread_count": 1,
  "fp16.enabled": false, "fp16.loss_scale": 0.0, "fp16.initial_scale_power": 16, "fp16.loss_scale_window": 1000,
  "fp16.hysteresis": 2, "fp16.consecutive_hysteresis": false, "fp16.min_loss_scale": 1,
  "bf16.enabled": false, "bf16.check_grad_overflow": true,
  "bf16.bf16_master_weights_and_grads": false, "bf16.bf16_optimizer_states": false,
  "optimizer.type": null, "optimizer.params.lr": null, "optimizer.params.betas": [0.9, 0.999],
  "optimizer.params.eps": null, "optimizer.params.weight_decay": 0.0, "optimizer.params.bias_correction": true,
  "optimizer.params.adam_w_mode": true, "optimizer.params.momentum": null, "optimizer.params.dampening": 0.0,
  "optimizer.params.nesterov": null, "optimizer.params.alpha": 0.99, "optimizer.params.lr_decay": 0.0,
  "optimizer.params.initial_accumulator_value": 0.0,
  "optimizer.params.max_coeff": 10.0, "optimizer.params.min_coeff": 0.01, "optimizer.params.muon_lr": null, "optimizer.params.adam_lr": null,
  "optimizer.params.freeze_step": 100000, "optimizer.params.ns_steps": 5,
  "optimizer.params.ns_method": "gram", "optimizer.params.adjust_lr_fn": "original",
  "zero_optimization.stage3_gather_16bit_weights_on_model_save": false,
  "scheduler.type": null, "scheduler.params.warmup_min_lr": 0.0, "scheduler.params.warmup_max_lr": null,
  "scheduler.params.warmup_num_steps": 1000, "scheduler.params.warmup_type": "log",
  "scheduler.params.total_num_steps": null, "scheduler.params.warmup_min_ratio": 0.0,
  "scheduler.params.cos_min_ratio": 0.0001, "scheduler.params.cycle_min_lr": null,
  "scheduler.params.cycle_max_lr": null, "scheduler.params.cycle_first_step_size": 2000,
  "scheduler.params.cycle_second_step_size": null, "scheduler.params.cycle_first_stair_count": 0,
  "scheduler.params.cycle_second_stair_count": null, "scheduler.params.decay_step_size": 0,
  "scheduler.params.decay_lr_rate": 0.0, "scheduler.params.cycle_momentum": true,
  "scheduler.params.cycle_min_mom": 0.8, "scheduler.params.cycle_max_mom": 0.9,
  "scheduler.params.decay_mom_rate": 0.0, "scheduler.params.lr_range_test_min_lr": 0.001,
  "scheduler.params.lr_range_test_step_size": 2000, "scheduler.params.lr_range_test_step_rate": 1.0,
  "scheduler.params.lr_range_test_staircase": false,
  "scheduler.params.factor": 0.3333333333333333, "scheduler.params.start_factor": 0.3333333333333333,
  "scheduler.params.end_factor": 1.0, "scheduler.params.total_iters": 5, "scheduler.params.T_max": null,
  "scheduler.params.eta_min": 0.0, "scheduler.params.step_size": null, "scheduler.params.milestones": null,
  "scheduler.params.gamma": null,
  "wandb.enabled": false, "wandb.team": null, "wandb.project": "deepspeed",
  "comms_logger.enabled": false, "comms_logger.verbose": false,
  "flops_profiler.enabled": false, "flops_profiler.profile_step": 1, "flops_profiler.recompute_fwd_factor": 0.0,
  "flops_profiler.detailed": true, "flops_profiler.output_file": null,
  "zero_optimization.zero_quantized_gradients": false, "zero_optimization.zero_quantized_weights": false,
  "tensor_parallel.autotp_size": 0, "tensor_parallel.tensor_parallel.tp_size": 1,
  "activation_checkpointing.number_checkpoints": null, "activation_checkpointing.cpu_checkpointing": false
})";
std::set<std::string> const different = {
    "gradient_clipping",                                  // 0 for OneBitAdam
    "optimizer.type",                                     // DeepSpeed expects the program to bring an optimizer
    "optimizer.params.ns_method",                         // PyTorch's: standard
    "zero_optimization.offload_optimizer.pipeline_read",  // these follow overlap_comm
    "zero_optimization.offload_optimizer.pipeline_write",
    "zero_optimization.stage3_param_persistence_threshold",  // every parameter is sharded
};

TEST_CASE("Defaults are DeepSpeed's") {
  auto const theirs = nlohmann::json::parse(deepspeed);
  std::set<std::string> ours;
  for (auto const& key : config::keys) {
    std::string const path{key.path};
    INFO(path);
    if (path.starts_with("zeroth.")) {
      continue;
    }
    ours.insert(path);
    REQUIRE(theirs.contains(path));
    CHECK((nlohmann::json::parse(config::to_text(key.value)) == theirs[path]) != different.contains(path));
  }
  CHECK(ours.size() == theirs.size());
}

TEST_CASE("An empty file resolves to the defaults") {
  auto const settings = testing::settings_of("", 1, 123);
  Settings expected;  // the header's
  CHECK(settings.stage == expected.stage);
  CHECK(settings.reduce_bucket_count == expected.reduce_bucket_count);
  CHECK(settings.prefetch_count == expected.prefetch_count);
  CHECK(settings.max_live_count == expected.max_live_count);
  CHECK(settings.timeout == expected.timeout);
  CHECK(settings.flight_recorder.empty());
  CHECK(settings.gradient_slots == 1);
  CHECK(settings.rules.clip == 1);
  auto const& adam = std::get<optim::Adam>(settings.update.rule);
  CHECK(adam.beta1 == 0.9);
  CHECK(adam.beta2 == 0.999);
  CHECK(adam.epsilon == 1e-8F);
  CHECK(adam.weight_decay == 0);
  CHECK(adam.decoupled_decay);
  CHECK(adam.bias_correction);
  CHECK_FALSE(settings.rules.has_learning_rate);
}

TEST_CASE("The table of keys is consistent") {
  std::set<std::string_view> paths;
  for (auto const& key : config::keys) {
    INFO(key.path);
    CHECK(paths.insert(key.path).second);
    CHECK_FALSE(key.meaning.empty());
    CHECK((key.derive == nullptr) == key.why.empty());
    CHECK((key.kind == config::Kind::name) == !key.names.empty());
    CHECK((key.derive == nullptr || std::holds_alternative<std::monostate>(key.value)));
    CHECK(key.range.least <= key.range.most);
  }
}

}  // namespace
}  // namespace zeroth
