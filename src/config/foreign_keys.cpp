// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "config/check.hpp"

namespace zeroth::config {
namespace {

constexpr auto no_effect = Verdict::no_effect;
constexpr auto moot = Verdict::moot;
constexpr auto refused = Verdict::refused;
constexpr auto removed = Verdict::removed;

// clang-format off
constexpr ForeignKey table[] = {
    // ---- top level
    {"managed_gradient_accumulation", Form::boolean, refused, "true", "the engine counts micro-steps: give StepOptions, or end the step where the program wants it"},
    {"dataloader_drop_last", Form::boolean, no_effect, "false", "the program loads its data itself"},
    {"sequence_parallel_size", Form::integer, refused, "1", "ranks do not exchange attention heads; zeroth.sequence_parallel divides rows among the ranks of zeroth.mesh.tensor"},
    {"use_data_before_expert_parallelism", Form::boolean, no_effect, "false", "there are no expert-parallel groups to order"},
    {"seq_parallel_communication_data_type", Form::text, no_effect, R"("fp32")", "ranks share no sequence; communication_data_type is the dtype of gradients"},
    {"prescale_gradients", Form::boolean, no_effect, "false", "a mean either way: fp16 sums are divided before they travel, by a power of two, all others in the update"},
    {"gradient_predivide_factor", Form::number, no_effect, "1.0", "a mean either way: fp16 sums are divided before they travel, by a power of two, all others in the update"},
    {"gradient_allreduce_op", Form::text, refused, R"("mean" or "MEAN" or "Mean")", "scale the loss in the program"},
    {"disable_allgather", Form::boolean, no_effect, "false", "DeepSpeed does not use it either"},
    {"disable_python_gc", Form::boolean, no_effect, "false", "there is no Python"},
    {"zero_allow_untested_optimizer", Form::boolean, no_effect, "false", "every optimizer that Zeroth has is tested at every stage"},
    {"zero_force_ds_cpu_optimizer", Form::boolean, no_effect, "true", "the update on a CPU is always Zeroth's own"},
    {"allgather_size", Form::integer, no_effect, "", "units are gathered one at a time"},
    {"log_level", Form::text, no_effect, "", "the program sets the level of its log"},
    {"vocabulary_size", Form::integer, no_effect, "", "DeepSpeed only warns if it is not a multiple of 8"},
    {"data_parallel_group", Form::any, no_effect, "", "the ranks of a job are its data-parallel group"},
    {"ddp_bf16", Form::any, no_effect, "", "DeepSpeed does not use it either"},
    // ---- what DeepSpeed 0.19 has removed
    {"amp", Form::object, removed, R"({"enabled": false})", "use fp16 or bf16"},
    {"nebula", Form::object, removed, R"({"enabled": false})", "AnyEngine::save() saves during training"},
    {"compression_training", Form::object, removed, "", ""},
    {"quantize_training", Form::object, removed, R"({"enabled": false})", ""},
    {"sparse_gradients", Form::boolean, removed, "false", ""},
    {"eigenvalue", Form::object, removed, R"({"enabled": false})", ""},
    {"sparse_attention", Form::object, removed, "", "zeroth.sparse_attention has the same keys"},
    {"elasticity", Form::object, removed, R"({"enabled": false})", "give the batch sizes"},
    {"graph_harvesting", Form::boolean, removed, "false", ""},
    {"curriculum_learning", Form::object, removed, R"({"enabled": false})", "the program loads its data itself"},
    {"progressive_layer_drop", Form::object, removed, R"({"enabled": false})", ""},
    // ---- sections for programs other than a training loop
    {"torch_autocast", Form::object, refused, R"({"enabled": false})", "use fp16 or bf16"},
    {"aio.single_submit", Form::boolean, no_effect, "false", "requests are submitted as they come"},
    {"aio.overlap_events", Form::boolean, no_effect, "true", "requests are answered as they come"},
    {"aio.use_gds", Form::boolean, refused, "false", "GPUDirect Storage is not supported"},
    {"autotuning", Form::object, no_effect, R"({"enabled": false})", "DeepSpeed's launcher reads it, the engine does not; zeroth plan and zeroth simulate compare stages"},
    {"pipeline", Form::object, no_effect, "", "DeepSpeed too reads it for a PipelineModule only"},
    {"datastates_ckpt", Form::any, refused, "false", "AnyEngine::save() saves during training"},
    {"expert_parallel", Form::object, refused, R"({"enabled": false})", "there is no expert parallelism"},
    {"data_efficiency", Form::object, refused, R"({"enabled": false})", "the program loads its data itself: DeepSpeed still has this key; leave it to the files of DeepSpeed"},
    {"hybrid_engine.enabled", Form::boolean, refused, "false", "generation is not part of Zeroth"},
    {"hybrid_engine.max_out_tokens inference_tp_size release_inference_cache pin_parameters tp_gather_partition_size enable_cuda_graph", Form::any, moot, "", "of hybrid_engine.enabled"},
    {"weight_quantization.enabled", Form::boolean, no_effect, "", "DeepSpeed's inference reads it, training does not"},
    {"weight_quantization.num_bits q_groups", Form::integer, no_effect, "", "DeepSpeed's inference reads it, training does not"},
    {"weight_quantization.q_type", Form::text, no_effect, "", "DeepSpeed's inference reads it, training does not"},
    {"weight_quantization.quantized_initialization post_init_quant", Form::object, no_effect, "", "DeepSpeed's inference reads it, training does not"},
    {"tensor_parallel.dtype tp_overlap_comm vocab_parallel_lm_head vocab_parallel_ce_backend injection_policy_tuple partition_config preset_model keep_module_on_host replace_with_kernel_inject kernel_inject", Form::any, moot, "", "the program divides its model itself, by ParamOptions::cut"},
    {"tensor_parallel.tensor_parallel.tp_grain_size mpu tp_group", Form::any, moot, "", "of zeroth.mesh.tensor"},
    {"compile.deepcompile", Form::boolean, no_effect, "false", "it compiles PyTorch modules"},
    {"compile.autoep_non_moe free_activation free_activation_threshold offload_activation offload_activation_pin_memory offload_opt_states double_buffer symmetric_memory debug_log offload_parameters sync_before_reduce sync_after_reduce sync_before_allgather sync_after_allgather keep_int_input_tensors keep_all_input_tensors passes", Form::any, moot, "", "of compile.deepcompile"},
    // ---- what is printed and written
    {"timers.throughput.enabled", Form::boolean, no_effect, "", "StepReport has the time of every step"},
    {"timers.throughput.synchronized", Form::boolean, moot, "", "of timers.throughput.enabled"},
    {"comms_logger.prof_all", Form::boolean, no_effect, "true", "every collective is counted"},
    {"comms_logger.debug", Form::boolean, no_effect, "false", "collectives are named by purpose and unit"},
    {"comms_logger.prof_ops", Form::list, no_effect, "[]", "every collective is counted"},
    {"flops_profiler.module_depth", Form::integer, no_effect, "-1", "units are not nested"},
    {"flops_profiler.top_modules", Form::integer, no_effect, "1", "the table has every unit"},
    {"wandb.group", Form::text, no_effect, "", "`wandb sync` does not group the runs of event files"},
    {"comet.enabled", Form::boolean, refused, "false", "use tensorboard, csv_monitor, wandb or a Monitor of the program's own"},
    {"comet.samples_log_interval project workspace api_key experiment_name experiment_key online mode", Form::any, moot, "", "of comet.enabled"},
    // ---- checkpoints
    {"checkpoint.tag_validation", Form::text, no_effect, R"("Warn" or "WARN" or "warn")", "ranks always agree on a checkpoint's name, or save() fails"},
    {"checkpoint.load_universal", Form::boolean, no_effect, "", "every checkpoint restores at any stage and number of ranks"},
    {"checkpoint.use_node_local_storage", Form::boolean, no_effect, "false", "save() needs one folder that all ranks see, and fails otherwise"},
    {"checkpoint.parallel_write", Form::object, no_effect, "", "ranks always write their shares at the same time"},
    {"checkpoint.checkpoint_serialization", Form::boolean, no_effect, "", "checkpoints are safetensors"},
    {"checkpoint.writer", Form::object, no_effect, "", "zeroth.checkpoint says how checkpoints are written"},
    // ---- activation checkpointing
    {"activation_checkpointing.partition_activations", Form::boolean, no_effect, "false", "activations are not divided among tensor ranks"},
    {"activation_checkpointing.contiguous_memory_optimization synchronize_checkpoint_boundary profile", Form::boolean, no_effect, "false", "the program decides how it keeps activations"},
    // ---- precision
    {"data_types.buffer_dtype", Form::text, no_effect, "", "the program holds what is not a parameter"},
    {"data_types.keep_in_fp32_modules", Form::any, no_effect, "", "the program holds what is not a parameter"},
    {"fp16.auto_cast", Form::boolean, no_effect, "false", "the program converts its input itself"},
    {"fp16.fp16_master_weights_and_grads", Form::boolean, refused, "false", "masters of fp16 are fp32; bf16 has bf16_master_weights_and_grads"},
    {"bf16.loss_scale", Form::number, refused, "", "bf16 needs no loss scale"},
    {"bf16.loss_scale_window initial_scale_power hysteresis min_loss_scale", Form::integer, refused, "", "bf16 needs no loss scale"},
    {"bf16.consecutive_hysteresis", Form::boolean, refused, "", "bf16 needs no loss scale"},
    {"bf16.auto_cast", Form::boolean, refused, "", "the program converts its input itself"},
    {"bf16.immediate_grad_update", Form::boolean, no_effect, "false", "zeroth.reduce_gradients determines when gradients are added to fp32 sums"},
    // ---- zero_optimization
    {"zero_optimization.contiguous_gradients", Form::boolean, no_effect, "true", "gradients are always contiguous"},
    {"zero_optimization.reduce_scatter", Form::boolean, no_effect, "true", "stages 1 to 3 always reduce-scatter; the sums are the same"},
    {"zero_optimization.use_multi_rank_bucket_allreduce", Form::boolean, no_effect, "true", "a bucket is one reduce-scatter"},
    {"zero_optimization.allgather_partitions", Form::boolean, no_effect, "true", "parameters are always gathered with an all-gather"},
    {"zero_optimization.allgather_bucket_size", Form::integer, no_effect, "500000000", "units are gathered one at a time"},
    {"zero_optimization.compute_grad_norm", Form::boolean, no_effect, "true", "the norm is part of the update"},
    {"zero_optimization.parameter_alignment", Form::boolean, no_effect, "false", "parameters are always aligned"},
    {"zero_optimization.load_from_fp32_weights", Form::boolean, no_effect, "true", "masters are restored as they were saved"},
    {"zero_optimization.elastic_checkpoint", Form::boolean, no_effect, "false", "every checkpoint restores at any number of ranks"},
    {"zero_optimization.cpu_offload_use_pin_memory", Form::boolean, no_effect, "", "DeepSpeed does not use it either"},
    {"zero_optimization.offload_param.pin_memory", Form::boolean, moot, "", "host memory for a GPU is always pinned"},
    {"zero_optimization.offload_optimizer.pin_memory", Form::boolean, moot, "", "host memory for a GPU is always pinned, because copies of other memory block the host"},
    {"zero_optimization.offload_optimizer.fast_init", Form::boolean, moot, "", R"(of offload_optimizer.device "nvme")"},
    {"zero_optimization.offload_optimizer.super_offload", Form::boolean, no_effect, "false", "it is another schedule of the same update"},
    {"zero_optimization.offload_optimizer.cpuadam_cores_perc", Form::number, moot, "", "of offload_optimizer.super_offload"},
    {"zero_optimization.zenflow", Form::object, refused, "", "its late updates train something else"},
    {"zero_optimization.stage3_max_reuse_distance", Form::integer, no_effect, "1000000000", "a unit is released after use; stage3_max_live_parameters bounds what is gathered"},
    {"zero_optimization.stage3_module_granularity_threshold", Form::integer, no_effect, "0", "the units of the model determine what is gathered together"},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", Form::boolean, no_effect, "false", "parameters are always gathered with an all-gather"},
    {"zero_optimization.stage3_allgather_sequential", Form::boolean, no_effect, "false", "the units of the model determine what is gathered together"},
    {"zero_optimization.ignore_unused_parameters", Form::boolean, no_effect, "true", "a unit that a micro-step does not use is skipped by name, with skip()"},
    {"zero_optimization.legacy_stage1", Form::boolean, refused, "false", "DeepSpeed refuses it too"},
    {"zero_optimization.round_robin_gradients", Form::boolean, no_effect, "false", "it orders copies to the host; the sums are the same"},
    {"zero_optimization.zero_quantized_nontrainable_weights", Form::boolean, refused, "false", "parameters are kept in the compute dtype"},
    {"zero_optimization.zeropp_loco_param", Form::object, removed, "", ""},
    {"zero_optimization.mics_hierarchical_params_gather", Form::boolean, removed, "false", ""},
    {"zero_optimization.memory_efficient_linear override_module_apply", Form::boolean, no_effect, "true", "it applies to PyTorch modules"},
    {"zero_optimization.pipeline_loading_checkpoint", Form::boolean, no_effect, "false", "every rank reads its share"},
    {"zero_optimization.log_trace_cache_warnings", Form::boolean, no_effect, "false", "there is no trace to invalidate"},
    {"zero_optimization.enable_sanity_checks", Form::boolean, no_effect, "false", "zeroth.check compares ranks"},
    {"zero_optimization.save_muon_momentum_buffer_in_memory", Form::boolean, no_effect, "false", "with the optimizer Muon all states are in memory"},
    {"zero_optimization.leaf_module.classes names name_suffixes", Form::any, no_effect, "", "the units of the model determine what is gathered together"},
    // ---- optimizer
    {"optimizer.legacy_fusion", Form::boolean, no_effect, "false", "it is one of two kernels of the same update"},
    {"optimizer.params.amsgrad", Form::boolean, refused, "false", "DeepSpeed refuses it too"},
    {"optimizer.params.set_grad_none", Form::boolean, no_effect, "true", "gradients are never zeroed, their first write overwrites"},
    {"optimizer.params.torch_adam", Form::boolean, no_effect, "false", "it is one of two kernels of the same update"},
    {"optimizer.params.fp32_optimizer_states", Form::boolean, refused, "true", "use bf16.bf16_optimizer_states"},
    {"optimizer.params.max_grad_norm", Form::number, refused, "", "use gradient_clipping; DeepSpeed refuses it too"},
    {"optimizer.params.centered differentiable", Form::boolean, refused, "false", "leave it out"},
    {"optimizer.params.maximize", Form::boolean, refused, "false", "negate the loss in the program"},
    {"optimizer.params.foreach fused capturable", Form::boolean, no_effect, "false", "it is one of several kernels of the same update"},
    {"optimizer.params.cuda_aware comm_backend_name", Form::any, no_effect, "", "the job's transport carries signs"},
    {"optimizer.params.var_freeze_step var_update_scaler local_step_scaler local_step_clipper coeff_beta factor_max factor_min factor_threshold", Form::any, refused, "", "it belongs to an optimizer that Zeroth does not have"},
    {"optimizer.params.eps_inside_sqrt", Form::boolean, refused, "false", "eps is added to the root"},
    // ---- scheduler
    {"scheduler.params.last_batch_iteration", Form::integer, refused, "-1", "restore() continues where the checkpoint was saved"},
    {"scheduler.params.last_epoch", Form::integer, refused, "-1", "restore() continues where the checkpoint was saved"},
};
// clang-format on

constexpr std::string_view strict_sections[] = {
    "zero_optimization",
    "zero_optimization.offload_param",
    "zero_optimization.offload_optimizer",
    "zero_optimization.leaf_module",
    "fp16",
    "bf16",
    "optimizer.params",
    "scheduler.params",
    "tensorboard",
    "csv_monitor",
    "wandb",
    "comet",
    "comms_logger",
    "timers.throughput",
    "tensor_parallel",
    "compile",
    "hybrid_engine",
    "weight_quantization",
    "zeroth",
    "zeroth.checkpoint",
};

/// Whether both are equal. An object matches if `node` has at least the members of `pattern`.
bool matches(Node const& node, Node const& pattern) {
  if (auto const* const number = std::get_if<Number>(&pattern.value)) {
    auto const* const value = std::get_if<Number>(&node.value);
    return value != nullptr && value->real == number->real;
  }
  if (auto const* const object = std::get_if<Object>(&pattern.value)) {
    auto const* const value = std::get_if<Object>(&node.value);
    return value != nullptr && std::ranges::all_of(*object, [&](Member const& wanted) {
             auto const found = std::ranges::find(*value, wanted.name, &Member::name);
             return found != value->end() && matches(found->node, wanted.node);
           });
  }
  if (std::holds_alternative<Array>(pattern.value)) {  // the empty one
    auto const* const value = std::get_if<Array>(&node.value);
    return value != nullptr && value->empty();
  }
  if (auto const* const text = std::get_if<std::string>(&pattern.value)) {
    auto const* const value = std::get_if<std::string>(&node.value);
    return value != nullptr && *value == *text;
  }
  auto const* const flag = std::get_if<bool>(&pattern.value);
  auto const* const value = std::get_if<bool>(&node.value);
  return flag != nullptr && value != nullptr && *value == *flag;
}

}  // namespace

std::span<ForeignKey const> foreign_rows() noexcept { return table; }

std::span<ForeignKey const> foreign_keys() {
  static std::deque<std::string> paths;
  static auto const all = [] {
    std::vector<ForeignKey> one_each;
    for (auto key : table) {
      auto const section = key.path.substr(0, key.path.find_last_of('.') + 1);
      for (auto names = key.path.substr(section.size()); !names.empty();) {
        auto const end = std::min(names.find(' '), names.size());
        key.path = paths.emplace_back(std::string{section} + std::string{names.substr(0, end)});
        one_each.push_back(key);
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }
    return one_each;
  }();
  return all;
}

ForeignKey const* find_foreign_key(std::string_view path) {
  auto const all = foreign_keys();
  auto const found = std::ranges::find(all, path, &ForeignKey::path);
  return found == all.end() ? nullptr : &*found;
}

bool is_strict_section(std::string_view section) noexcept {
  return std::ranges::find(strict_sections, section) != std::end(strict_sections);
}

bool asks_for_nothing(ForeignKey const& key, Node const& node) {
  auto const* const object = std::get_if<Object>(&node.value);
  if (is_null(node) || is_auto(node) || (object != nullptr && object->empty())) {
    return true;
  }
  constexpr std::string_view separator = " or ";
  for (auto rest = key.nothing; !rest.empty();) {
    auto const end = std::min(rest.find(separator), rest.size());
    Problems none;
    auto const pattern = read_document(fmt::format("{{\"nothing\": {}}}", rest.substr(0, end)), none);
    if (matches(node, pattern.front().node)) {
      return true;
    }
    rest.remove_prefix(std::min(end + separator.size(), rest.size()));
  }
  return false;
}

bool has_form(ForeignKey const& key, Node const& node) {
  auto const* const number = std::get_if<Number>(&node.value);
  switch (key.form) {
    case Form::boolean: return std::holds_alternative<bool>(node.value);
    case Form::integer: return number != nullptr && number->integer;
    case Form::number: return number != nullptr;
    case Form::text: return std::holds_alternative<std::string>(node.value);
    case Form::list: return std::holds_alternative<Array>(node.value);
    case Form::object: return std::holds_alternative<Object>(node.value);
    case Form::any: return true;
  }
  return true;
}

std::string_view allowed(Form form) {
  constexpr std::string_view forms[] = {"true or false", "a whole number", "a number", "a string",
                                        "an array",      "an object",      "anything"};
  return forms[static_cast<std::size_t>(form)];
}

std::string_view describe(Verdict verdict) {
  constexpr std::string_view verdicts[] = {"without effect", "moot", "refused", "removed"};
  return verdicts[static_cast<std::size_t>(verdict)];
}

}  // namespace zeroth::config
