// SPDX-License-Identifier: Apache-2.0
#include "jobs/refusals.hpp"

#include <fmt/format.h>

#include <vector>

#include "jobs/built_model.hpp"
#include "jobs/program.hpp"
#include "jobs/random.hpp"
#include "jobs/stage_file.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/plan.hpp"

namespace zeroth::testing::jobs {
namespace {

struct Refusal {
  char const* key;      ///< The key that the error names.
  char const* changes;  ///< Changes to the stage file.
  bool (*contradicts)(Choice const&);
};

bool stage_below(Choice const& choice, char const* stage) { return choice["zero_optimization.stage"] < stage; }
bool computes_in(Choice const& choice, char const* dtype) { return choice["types"].starts_with(dtype); }
bool has_type(Choice const& choice, char const* type) { return choice["optimizer"].starts_with(type); }
bool has_no_groups(Choice const& choice) { return choice.is("groups", "none"); }
bool always(Choice const&) { return true; }

constexpr Refusal refusals[] = {
    {"zero_optimization.zero_hpz_partition_size", R"({"zero_optimization": {"zero_hpz_partition_size": 2}})",
     [](Choice const& c) { return stage_below(c, "3"); }},
    {"zero_optimization.zero_hpz_partition_size", R"({"zero_optimization": {"zero_hpz_partition_size": 7}})",
     has_no_groups},
    {"zero_optimization.mics_shard_size", R"({"zero_optimization": {"mics_shard_size": 1}})",
     [](Choice const& c) { return stage_below(c, "1"); }},
    {"zero_optimization.mics_shard_size", R"({"zero_optimization": {"mics_shard_size": 7}})", has_no_groups},
    {"zero_optimization.mics_shard_size",
     R"({"zero_optimization": {"mics_shard_size": 1, "zero_hpz_partition_size": 2}})",
     [](Choice const& c) { return !stage_below(c, "3"); }},
    {"zeroth.two_level_sums", R"({"zeroth": {"two_level_sums": true}})", has_no_groups},
    {"zeroth.same_bits_at_any_ranks",
     R"({"zeroth": {"same_bits_at_any_ranks": true, "reduce_gradients": "last_micro_step"}})", always},
    {"zeroth.group_size", R"({"zeroth": {"group_size": 1}})", has_no_groups},
    {"zeroth.ema.decay", R"({"zeroth": {"ema": {"decay": 1}}})", always},
    {"zeroth.delayed_update", R"({"zeroth": {"delayed_update": true}})",
     [](Choice const& c) {
       return !stage_below(c, "3") || !c.is("states", "in memory") || has_type(c, "Muon") || has_type(c, "Lamb");
     }},
    {"zero_optimization.offload_param.device",
     R"({"zero_optimization": {"offload_param": {"device": "nvme", "nvme_path": "/tmp"}}})",
     [](Choice const& c) { return stage_below(c, "3"); }},
    {"zero_optimization.offload_optimizer.nvme_path",
     R"({"zero_optimization": {"offload_optimizer": {"device": "nvme"}}})",
     [](Choice const& c) { return c.is("states", "in memory"); }},
    {"zero_optimization.offload_optimizer.ratio", R"({"zero_optimization": {"offload_optimizer": {"ratio": 1.5}}})",
     always},
    {"aio.block_size", R"({"aio": {"block_size": 5000}})", [](Choice const& c) { return c.is("states", "on a disk"); }},
    {"zeroth.offload_update", R"({"zeroth": {"offload_update": "host"}})",
     [](Choice const& c) { return !c.is("states", "on the host"); }},
    {"bf16.enabled", R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})", always},
    {"bf16.bf16_optimizer_states", R"({"bf16": {"bf16_optimizer_states": true}})",
     [](Choice const& c) { return !computes_in(c, "bf16 masters"); }},
    {"zeroth.reduce_codec", R"({"zeroth": {"reduce_codec": "int8"}})",
     [](Choice const& c) { return c.is("types", "fp32 reduced in bf16") || c.is("types", "bf16 reduced in fp32"); }},
    {"zeroth.reduce_codec", R"({"zeroth": {"reduce_codec": "sign"}})",
     [](Choice const& c) { return !stage_below(c, "2") || c.is("zeroth.two_level_sums", "true"); }},
    {"zeroth.gather_codec", R"({"zeroth": {"gather_codec": "int8"}})",
     [](Choice const& c) { return computes_in(c, "fp32") || computes_in(c, "bf16 masters"); }},
    {"communication_data_type", R"({"communication_data_type": "fp32"})",
     [](Choice const& c) { return computes_in(c, "bf16 masters"); }},
    {"zeroth.gradient_dtype", R"({"zeroth": {"gradient_dtype": "fp16"}})",
     [](Choice const& c) { return !computes_in(c, "fp16"); }},
    {"zeroth.skip_nonfinite", R"({"zeroth": {"skip_nonfinite": false}})",
     [](Choice const& c) { return computes_in(c, "fp16"); }},
    {"fp16.min_loss_scale", R"({"fp16": {"min_loss_scale": 0}})",
     [](Choice const& c) { return computes_in(c, "fp16") && !c.is("types", "fp16 with a scale of its own"); }},
    {"optimizer.params.adam_w_mode", R"({"optimizer": {"params": {"adam_w_mode": false}}})",
     [](Choice const& c) { return has_type(c, "AdamW"); }},
    {"optimizer.params.nesterov", R"({"optimizer": {"params": {"nesterov": true, "momentum": 0}}})",
     [](Choice const& c) { return has_type(c, "SGD"); }},
    {"optimizer.params.betas", R"({"optimizer": {"params": {"betas": [0.9, 0.9]}}})",
     [](Choice const& c) { return has_type(c, "SGD") || has_type(c, "RMSprop") || has_type(c, "Adagrad"); }},
    {"optimizer.params.ns_method", R"({"optimizer": {"params": {"ns_method": "svd"}}})",
     [](Choice const& c) { return has_type(c, "Muon"); }},
    {"zero_optimization.offload_optimizer.device",
     R"({"zero_optimization": {"offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"}}})",
     [](Choice const& c) { return has_type(c, "Muon") || has_type(c, "Lamb"); }},
    {"zero_optimization.stage", R"({"zero_optimization": {"stage": 1}})",
     [](Choice const& c) { return has_type(c, "OneBitAdam"); }},
    {"gradient_clipping", R"({"gradient_clipping": 1})", [](Choice const& c) { return has_type(c, "OneBitAdam"); }},
    {"optimizer.params.min_coeff", R"({"optimizer": {"params": {"min_coeff": 3, "max_coeff": 2.5}}})",
     [](Choice const& c) { return has_type(c, "Lamb"); }},
    {"scheduler.params.total_num_steps", R"({"scheduler": {"params": {"total_num_steps": null}}})",
     [](Choice const& c) { return c.is("scheduler", "WarmupDecayLR"); }},
    {"scheduler.params.T_max", R"({"scheduler": {"params": {"T_max": 0}}})",
     [](Choice const& c) { return c.is("scheduler", "CosineAnnealingLR"); }},
    {"scheduler.params.milestones", R"({"scheduler": {"params": {"milestones": [1.5]}}})",
     [](Choice const& c) { return c.is("scheduler", "MultiStepLR"); }},
    {"scheduler.type", R"({"scheduler": {"type": "OneCycleLR"}})",
     [](Choice const& c) { return c.is("scheduler", "-"); }},
    {"scheduler.params.cycle_momentum", R"({"scheduler": {"params": {"cycle_momentum": true}}})",
     [](Choice const& c) { return c.is("scheduler", "OneCycle") && (has_type(c, "Adam") || has_type(c, "Lion")); }},
    {"train_batch_size", R"({"train_batch_size": 7919, "gradient_accumulation_steps": 2})", always},
    {"zero_optimization.reduce_bucket_sze", R"({"zero_optimization": {"reduce_bucket_sze": 1}})", always},
    {"gradient_clipping", R"({"gradient_clipping": -1})", always},
    {"zeroth.gradient_slots", R"({"zeroth": {"gradient_slots": 0}})", always},
    {"zeroth.mesh.pipeline", R"({"zeroth": {"mesh": {"pipeline": 1000}}})", always},
    {"zeroth.parameter_server.servers", R"({"zeroth": {"parameter_server": {"servers": 1000}}})", always},
    {"zeroth.parameter_server.servers", R"({"zeroth": {"parameter_server": {"servers": 1}}})",
     [](Choice const& c) {
       return !stage_below(c, "1") || !c.is("states", "in memory") || has_type(c, "Muon") || has_type(c, "Lamb") ||
              has_type(c, "OneBitAdam") || c.is("zeroth.delayed_update", "true") ||
              c.is("zeroth.gather_codec", R"("int8")");
     }},
    {"zeroth.parameter_server.staleness", R"({"zeroth": {"parameter_server": {"staleness": 2}}})",
     [](Choice const& c) { return servers_of(c) == 0; }},
    {"zeroth.parameter_server.staleness",
     R"({"gradient_clipping": 1, "zeroth": {"parameter_server": {"staleness": 2}}})", always},
    {"zeroth.parameter_server.colocated", R"({"zeroth": {"parameter_server": {"colocated": true}}})", always},
    {"zeroth.mesh.tensor", R"({"zeroth": {"mesh": {"tensor": 1000}}})", always},
    {"tensor_parallel.autotp_size", R"({"tensor_parallel": {"autotp_size": 7}})", always},
    {"zeroth.pipeline.chunks", R"({"zeroth": {"pipeline": {"schedule": "zb_h1", "chunks": 2}}})", always},
    {"zeroth.pipeline.first_units", R"({"zeroth": {"pipeline": {"first_units": [1]}}})", always},
    {"zeroth.pipeline.schedule_file", R"({"zeroth": {"pipeline": {"schedule_file": "x"}}})", always},
    {"zeroth.sparse_attention.num_global_blocks",
     R"({"zeroth": {"sparse_attention": {"mode": "fixed", "num_local_blocks": 4, "num_global_blocks": 3}}})", always},
    {"zeroth.activation_checkpointing.units", R"({"zeroth": {"activation_checkpointing": {"units": "every 1"}}})",
     always},
    {"zeroth.activation_checkpointing.offload",
     R"({"activation_checkpointing": {"cpu_checkpointing": true}, "zeroth": {"activation_checkpointing": {"units": "all",
         "offload": "none"}}})",
     always},
    {"zeroth.copy_engine_gather", R"({"zeroth": {"copy_engine_gather": true, "register_memory": false}})", always},
    {"zero_optimization.cpu_offload",
     R"({"zero_optimization": {"cpu_offload": true, "offload_optimizer": {"device": "cpu"}}})", always},
    {"bf16.check_grad_overflow", R"({"zeroth": {"skip_nonfinite": true}})",
     [](Choice const& c) { return c.is("types", "bf16 with what is not finite"); }},
    {"zeroth.strict is true", R"({"zeroth": {"strict": true}, "zero_optimization": {"reduce_scatter": false}})",
     always},
};

}  // namespace

std::string refusal_problem(Drawn const& drawn, std::filesystem::path const& folder) {
  std::vector<Refusal const*> contradicting;
  for (auto const& refusal : refusals) {
    if (refusal.contradicts(drawn.choice)) {
      contradicting.push_back(&refusal);
    }
  }
  Random random{drawn.seed, "refusal"};
  auto const& refusal = *random.among(contradicting);
  auto file = stage_file(drawn.choice, drawn.units, folder);
  file.merge_patch(nlohmann::json::parse(refusal.changes));
  try {
    BuiltModel const built{drawn, {0, tensor_of(drawn.choice)}};
    static_cast<void>(plan(built.model, config_of(drawn.choice, file), drawn.world()));
  } catch (ConfigError const& error) {
    bool const names_key = std::string_view{error.what()}.find(refusal.key) != std::string_view::npos;
    return names_key
               ? ""
               : fmt::format("with {} the error does not name {}: {}", refusal.changes, refusal.key, error.what());
  }
  return fmt::format("with {} the file is not refused", refusal.changes);
}

}  // namespace zeroth::testing::jobs
