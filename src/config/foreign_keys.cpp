// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_keys.hpp"

#include <algorithm>

namespace zeroth::config {
namespace {

constexpr std::string_view disabled = R"({"enabled": false})";
constexpr std::string_view report = "StepReport has what there is to log; write it where you want it";
constexpr std::string_view torch_only = "it is about PyTorch modules";
constexpr std::string_view recompute = "recompute activations inside the backward guard instead";
constexpr std::string_view other_optimizer = "of an optimizer that Zeroth does not have";
constexpr std::string_view other_scheduler = "scheduler.type is WarmupLR, WarmupDecayLR or WarmupCosineLR";
constexpr std::string_view one_unit = "Zeroth gathers one unit at a time; choose the units in the model";
constexpr std::string_view all_sharded = "Zeroth shards every parameter";

// clang-format off
constexpr ForeignKey table[] = {
    // ---- top level
    {"managed_gradient_accumulation", "true", ""},
    {"dataloader_drop_last", "false", "the program loads its data itself"},
    {"sequence_parallel_size", "1", ""},
    {"use_data_before_expert_parallelism", "false", ""},
    {"seq_parallel_communication_data_type", R"("fp32")", "use communication_data_type"},
    {"prescale_gradients", "false", "Zeroth sums, and divides once in the update"},
    {"gradient_predivide_factor", "1.0", "Zeroth sums, and divides once in the update"},
    {"gradient_allreduce_op", R"("mean")", "scale the loss in the program"},
    {"sparse_gradients", "false", ""},
    {"disable_allgather", "false", ""},
    {"graph_harvesting", "false", ""},
    {"zero_allow_untested_optimizer", "true or false", ""},
    {"zero_force_ds_cpu_optimizer", "true or false", ""},
    {"allgather_size", "", one_unit},
    {"steps_per_print", "", report},
    {"wall_clock_breakdown", "false", report},
    {"memory_breakdown", "false", "Engine::planned() and Engine::peak() say what is held"},
    {"dump_state", "false", "Config::to_string() prints the resolved file"},
    {"log_level", "", ""},
    {"vocabulary_size", "", ""},
    // ---- sections
    {"amp", disabled, "use fp16 or bf16"},
    {"torch_autocast", disabled, "use fp16 or bf16"},
    {"timers", R"({"throughput": {"enabled": false}})", report},
    {"comms_logger", disabled, "StepReport has the bytes per collective"},
    {"flops_profiler", disabled, ""},
    {"tensorboard", disabled, report},
    {"csv_monitor", disabled, report},
    {"wandb", disabled, report},
    {"comet", disabled, report},
    {"aio", "", ""},
    {"checkpoint", "", ""},
    {"nebula", disabled, ""},
    {"datastates_ckpt", "", ""},
    {"elasticity", disabled, ""},
    {"autotuning", disabled, ""},
    {"tensor_parallel", "", ""},
    {"expert_parallel", disabled, ""},
    {"pipeline", "", ""},
    {"compile", R"({"deepcompile": false})", torch_only},
    {"hybrid_engine", disabled, ""},
    {"sparse_attention", "", torch_only},
    {"progressive_layer_drop", disabled, ""},
    {"eigenvalue", disabled, ""},
    {"quantize_training", "", ""},
    {"curriculum_learning", disabled, "the program loads its data itself"},
    {"data_efficiency", disabled, "the program loads its data itself"},
    {"compression_training", "", ""},
    {"weight_quantization", "", ""},
    {"activation_checkpointing.partition_activations", "false", recompute},
    {"activation_checkpointing.cpu_checkpointing", "false", recompute},
    {"activation_checkpointing.contiguous_memory_optimization", "false", recompute},
    {"activation_checkpointing.number_checkpoints", "", recompute},
    {"activation_checkpointing.synchronize_checkpoint_boundary", "false", recompute},
    {"activation_checkpointing.profile", "false", recompute},
    // ---- precision
    {"data_types.buffer_dtype", "", torch_only},
    {"fp16.auto_cast", "false", "convert the input in the program"},
    {"fp16.fp16_master_weights_and_grads", "false", "masters are fp32"},
    {"bf16.immediate_grad_update", "false", ""},
    // ---- zero_optimization
    {"zero_optimization.contiguous_gradients", "true", "gradients are always contiguous"},
    {"zero_optimization.reduce_scatter", "true", "stages 1 to 3 always reduce-scatter"},
    {"zero_optimization.use_multi_rank_bucket_allreduce", "true", ""},
    {"zero_optimization.allgather_partitions", "true", "parameters are always gathered with an all-gather"},
    {"zero_optimization.allgather_bucket_size", "", one_unit},
    {"zero_optimization.load_from_fp32_weights", "true", "masters are loaded as they were saved"},
    {"zero_optimization.elastic_checkpoint", "false", ""},
    {"zero_optimization.offload_param", R"({"device": "none"})", ""},
    {"zero_optimization.offload_optimizer", R"({"device": "none"})", ""},
    {"zero_optimization.cpu_offload", "false", ""},
    {"zero_optimization.cpu_offload_param", "false", ""},
    {"zero_optimization.cpu_offload_use_pin_memory", "false", ""},
    {"zero_optimization.zenflow", "", ""},
    {"zero_optimization.sub_group_size", "", "the update runs unit by unit; choose the units in the model"},
    {"zero_optimization.stage3_param_persistence_threshold", "0", all_sharded},
    {"zero_optimization.stage3_model_persistence_threshold", "0", all_sharded},
    {"zero_optimization.stage3_max_reuse_distance", "", "stage3_max_live_parameters bounds what is gathered"},
    {"zero_optimization.stage3_module_granularity_threshold", "0", one_unit},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "false", ""},
    {"zero_optimization.stage3_allgather_sequential", "false", one_unit},
    {"zero_optimization.ignore_unused_parameters", "", "say skip() for a unit that a micro-step does not use"},
    {"zero_optimization.legacy_stage1", "false", ""},
    {"zero_optimization.round_robin_gradients", "false", ""},
    {"zero_optimization.zero_quantized_weights", "false", ""},
    {"zero_optimization.zero_quantized_nontrainable_weights", "false", ""},
    {"zero_optimization.zero_quantized_gradients", "false", ""},
    {"zero_optimization.zeropp_loco_param", "", ""},
    {"zero_optimization.mics_hierarchical_params_gather", "false", ""},
    {"zero_optimization.memory_efficient_linear", "", torch_only},
    {"zero_optimization.pipeline_loading_checkpoint", "false", ""},
    {"zero_optimization.override_module_apply", "", torch_only},
    {"zero_optimization.log_trace_cache_warnings", "false", ""},
    {"zero_optimization.enable_sanity_checks", "false", "use zeroth.check"},
    {"zero_optimization.save_muon_momentum_buffer_in_memory", "false", ""},
    {"zero_optimization.leaf_module", "", one_unit},
    // ---- optimizer
    {"optimizer.legacy_fusion", "false", ""},
    {"optimizer.params.amsgrad", "false", ""},
    {"optimizer.params.set_grad_none", "true", "gradients are never zeroed, their first write overwrites"},
    {"optimizer.params.torch_adam", "false", ""},
    {"optimizer.params.fp32_optimizer_states", "true", "use bf16.bf16_optimizer_states"},
    {"optimizer.params.max_grad_norm", "", "use gradient_clipping"},
    {"optimizer.params.centered", "false", ""},
    {"optimizer.params.maximize", "false", "negate the loss in the program"},
    {"optimizer.params.foreach", "true or false", ""},
    {"optimizer.params.fused", "true or false", ""},
    {"optimizer.params.capturable", "true or false", ""},
    {"optimizer.params.differentiable", "false", ""},
    {"optimizer.params.muon_lr", "", other_optimizer},
    {"optimizer.params.adam_lr", "", other_optimizer},
    {"optimizer.params.ns_method", "", other_optimizer},
    {"optimizer.params.max_coeff", "", other_optimizer},
    {"optimizer.params.min_coeff", "", other_optimizer},
    {"optimizer.params.eps_inside_sqrt", "false", other_optimizer},
    {"optimizer.params.freeze_step", "", other_optimizer},
    {"optimizer.params.cuda_aware", "", other_optimizer},
    {"optimizer.params.comm_backend_name", "", other_optimizer},
    {"optimizer.params.var_freeze_step", "", other_optimizer},
    {"optimizer.params.var_update_scaler", "", other_optimizer},
    {"optimizer.params.local_step_scaler", "", other_optimizer},
    {"optimizer.params.local_step_clipper", "", other_optimizer},
    {"optimizer.params.coeff_beta", "", other_optimizer},
    {"optimizer.params.factor_max", "", other_optimizer},
    {"optimizer.params.factor_min", "", other_optimizer},
    {"optimizer.params.factor_threshold", "", other_optimizer},
    // ---- scheduler
    {"scheduler.params.last_batch_iteration", "-1", ""},
    {"scheduler.params.cycle_min_lr", "", other_scheduler},
    {"scheduler.params.cycle_max_lr", "", other_scheduler},
    {"scheduler.params.decay_lr_rate", "", other_scheduler},
    {"scheduler.params.cycle_first_step_size", "", other_scheduler},
    {"scheduler.params.cycle_second_step_size", "", other_scheduler},
    {"scheduler.params.cycle_first_stair_count", "", other_scheduler},
    {"scheduler.params.cycle_second_stair_count", "", other_scheduler},
    {"scheduler.params.decay_step_size", "", other_scheduler},
    {"scheduler.params.cycle_momentum", "", other_scheduler},
    {"scheduler.params.cycle_min_mom", "", other_scheduler},
    {"scheduler.params.cycle_max_mom", "", other_scheduler},
    {"scheduler.params.decay_mom_rate", "", other_scheduler},
    {"scheduler.params.lr_range_test_min_lr", "", other_scheduler},
    {"scheduler.params.lr_range_test_step_size", "", other_scheduler},
    {"scheduler.params.lr_range_test_step_rate", "", other_scheduler},
    {"scheduler.params.lr_range_test_staircase", "", other_scheduler},
};
// clang-format on

}  // namespace

std::span<ForeignKey const> foreign_keys() noexcept { return table; }

ForeignKey const* find_foreign_key(std::string_view path) noexcept {
  auto const* const found = std::ranges::find(table, path, &ForeignKey::path);
  return found == std::end(table) ? nullptr : found;
}

}  // namespace zeroth::config
