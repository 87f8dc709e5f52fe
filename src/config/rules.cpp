// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "config/named_rules.hpp"
#include "zeroth/optim/learning_rate_schedule.hpp"

namespace zeroth::config {
namespace {

// A rule returns the problem of its key in the table below, and the remedy; empty if there is no problem.

class Product {
 public:
  void multiply(std::int64_t factor, std::string_view name) {
    factors_.push_back(fmt::format("{} ({})", factor, name));
    value_ *= factor;
  }
  [[nodiscard]] std::int64_t value() const { return value_; }
  [[nodiscard]] std::string text() const {  // "4 (train_micro_batch_size_per_gpu) x 2 (world size) = 8"
    auto const factors = fmt::format("{}", fmt::join(factors_, " x "));
    return factors_.size() == 1 ? factors : fmt::format("{} = {}", factors, value_);
  }

 private:
  std::int64_t value_ = 1;
  std::vector<std::string> factors_;
};

/// "; ranks that suit it: 1, 2, 4, 8": the world sizes up to four times `world` that divide a train batch into equal
/// numbers of batches of `others` samples. Empty if there are none.
std::string ranks_that_suit(std::int64_t train, std::int64_t others, int world) {
  constexpr std::size_t most = 12;
  std::vector<std::int64_t> suitable;
  for (std::int64_t ranks = 1; train % others == 0 && ranks <= std::min(train / others, std::int64_t{4} * world);
       ++ranks) {
    if (train / others % ranks == 0) {
      suitable.push_back(ranks);
    }
  }
  if (suitable.size() > most) {
    suitable.erase(suitable.begin(), suitable.end() - most);
  }
  return suitable.empty() ? std::string{} : fmt::format("; ranks that suit it: {}", fmt::join(suitable, ", "));
}

/// The batch size must be a multiple of the product of the known factors, or equal to it if all are known.
std::string batch_is_product(Values const& values) {
  if (!values.says<"train_batch_size">()) {
    return {};
  }
  auto const train = values.get<"train_batch_size">();
  bool const has_micro = values.says<"train_micro_batch_size_per_gpu">();
  bool const has_steps = values.says<"gradient_accumulation_steps">();
  Product product;
  if (has_micro) {
    product.multiply(values.get<"train_micro_batch_size_per_gpu">(), "train_micro_batch_size_per_gpu");
  }
  if (has_steps) {
    product.multiply(values.get<"gradient_accumulation_steps">(), "gradient_accumulation_steps");
  }
  if (product.value() > train) {
    return fmt::format("{} is less than {}", train, product.text());  // the product may grow beyond 64 bits
  }
  auto const others = product.value();
  if (values.given) {
    product.multiply(values.given->world, "world size");
  }
  if (has_micro && has_steps && values.given && train != product.value()) {
    return fmt::format("{} is not {}; change it, or leave out one of the three keys", train, product.text());
  }
  if (auto const below = train / product.value() * product.value(); below != train) {
    auto const lower = below > 0 ? fmt::format("{} or ", below) : std::string{};
    return fmt::format("{} is not a multiple of {}; nearest: {}{}{}", train, product.text(), lower,
                       below + product.value(),
                       values.given ? ranks_that_suit(train, others, values.given->world) : std::string{});
  }
  return {};
}

std::string batch_fits(Values const& values) {
  if (values.says<"train_batch_size">()) {
    return {};
  }
  auto const micro = values.get<"train_micro_batch_size_per_gpu">();
  auto const steps = values.get<"gradient_accumulation_steps">();
  auto const world = values.given ? values.given->world : 1;
  bool const fits = static_cast<double>(micro) * static_cast<double>(steps) * world <= int_limit;
  return fits ? ""
              : fmt::format(
                    "{} x {} (gradient_accumulation_steps) x {} (world size) is out of range; allowed: a "
                    "train_batch_size up to {:.0f}",
                    micro, steps, world, int_limit);
}

/// For values that matter only with fp16's dynamic scale. Otherwise any value is allowed, as in DeepSpeed.
template <Path P>
std::string dynamic_scale_has(Values const& values) {
  bool const dynamic = values.get<"fp16.enabled">() && values.get<"fp16.loss_scale">() == 0;
  auto const value = values.get<P>();
  return !dynamic || value >= 1
             ? ""
             : fmt::format("{} is out of range with a dynamic loss scale; allowed: 1 or more", value);
}

std::string smallest_scale_is_reached_from_above(Values const& values) {
  bool const dynamic = values.get<"fp16.enabled">() && values.get<"fp16.loss_scale">() == 0;
  auto const least = values.get<"fp16.min_loss_scale">();
  auto const power = values.get<"fp16.initial_scale_power">();
  bool const holds = !dynamic || static_cast<double>(least) <= std::ldexp(1.0, static_cast<int>(power));
  return holds ? "" : fmt::format("{} is more than the initial scale, 2^{} (fp16.initial_scale_power)", least, power);
}

std::string skip_suits_the_dtype(Values const& values) {
  if (!values.says<"zeroth.skip_nonfinite">()) {
    return {};
  }
  bool const skips = values.get<"zeroth.skip_nonfinite">();
  if (values.get<"fp16.enabled">() && !skips) {
    return "false, but fp16.enabled is true, and its loss scale depends on skipped updates; allowed: true";
  }
  bool const contradicts = values.get<"bf16.enabled">() && values.says<"bf16.check_grad_overflow">() &&
                           values.get<"bf16.check_grad_overflow">() != skips;
  return contradicts ? fmt::format("{}, but bf16.check_grad_overflow is {}; leave one of them out", skips, !skips) : "";
}

std::string adamw_is_decoupled(Values const& values) {
  bool const contradicts = values.get<"optimizer.type">() == "AdamW" && !values.get<"optimizer.params.adam_w_mode">();
  return contradicts ? "false, but optimizer.type is AdamW; set optimizer.type to \"Adam\" for L2 decay" : "";
}

std::string nesterov_has_momentum(Values const& values) {
  if (values.get<"optimizer.type">() != "SGD" || !values.get<"optimizer.params.nesterov">()) {
    return {};
  }
  auto const momentum = values.get<"optimizer.params.momentum">();
  auto const dampening = values.get<"optimizer.params.dampening">();
  return momentum > 0 && dampening == 0
             ? ""
             : fmt::format("true, but momentum is {} and dampening {}; it needs a momentum above 0 and no dampening",
                           momentum, dampening);
}

std::string optimizer_has_type(Values const& values) {
  bool const holds = values.says<"optimizer.type">() || !values.file_has("optimizer.params.");
  return holds ? ""
               : fmt::format("missing, but optimizer.params is set; allowed: {}",
                             allowed(keys[index_of<"optimizer.type">]));
}

std::string scheduler_has_type(Values const& values) {
  bool const holds = values.says<"scheduler.type">() || !values.file_has("scheduler.params.");
  return holds ? ""
               : fmt::format("missing, but scheduler.params is set; allowed: {}",
                             allowed(keys[index_of<"scheduler.type">]));
}

std::string scheduler_has_end(Values const& values) {
  auto const& key = keys[index_of<"scheduler.params.total_num_steps">];
  auto const type = values.get<"scheduler.type">();
  bool const open = values.entries[index_of<"scheduler.params.total_num_steps">].source == Source::automatic;
  bool const holds = open || !has_word(key.types, type) || values.says<"scheduler.params.total_num_steps">();
  return holds ? "" : fmt::format("missing; {} needs it: {}", type, allowed(key));
}

std::string scheduler_has_what_it_needs(Values const& values) {
  struct Need {
    std::string_view type;
    std::size_t key;
  };
  constexpr Need needs[] = {{"OneCycle", index_of<"scheduler.params.cycle_min_lr">},
                            {"OneCycle", index_of<"scheduler.params.cycle_max_lr">},
                            {"CosineAnnealingLR", index_of<"scheduler.params.T_max">},
                            {"StepLR", index_of<"scheduler.params.step_size">},
                            {"MultiStepLR", index_of<"scheduler.params.milestones">},
                            {"ExponentialLR", index_of<"scheduler.params.gamma">}};
  auto const type = values.get<"scheduler.type">();
  for (auto const& need : needs) {
    if (type == need.type && !values.says(need.key)) {
      return fmt::format("\"{}\" without {}; allowed there: {}", type, keys[need.key].path, allowed(keys[need.key]));
    }
  }
  return {};
}

std::string milestones_are_few(Values const& values) {
  auto const count = values.get<"scheduler.params.milestones">().copy().size();
  return count > optim::most_milestones ? fmt::format("{} milestones; allowed: up to {}", count, optim::most_milestones)
                                        : "";
}

std::string momentum_is_constant(Values const& values) {
  auto const type = values.get<"optimizer.type">();
  bool const has_betas = has_word(keys[index_of<"optimizer.params.betas">].types, type);
  bool const cycles = values.get<"scheduler.type">() == "OneCycle" && values.get<"scheduler.params.cycle_momentum">();
  return has_betas && cycles
             ? fmt::format("true, which is the default, but Zeroth does not cycle the betas of {}; allowed: false",
                           type)
             : "";
}

std::string warmup_outlasts_schedule(Values const& values) {
  auto const total = values.get<"scheduler.params.total_num_steps">();
  auto const warmup = values.get<"scheduler.params.warmup_num_steps">();
  return total >= warmup || !applies(keys[index_of<"scheduler.params.total_num_steps">], values)
             ? ""
             : fmt::format(
                   "{} is less than scheduler.params.warmup_num_steps, {}: the rate reaches its final value right "
                   "after the warm-up",
                   total, warmup);
}

std::string nobody_names_an_optimizer(Values const& values) {
  return values.entries[index_of<"optimizer.type">].source != Source::nothing || is_strict(values)  // then it is open
             ? std::string{}
             : fmt::format("not set; assuming {} with a rate of {}", values.get<"optimizer.type">(),
                           values.get<"optimizer.params.lr">());
}

std::string buffer_holds_pieces(Values const& values) {
  constexpr std::int64_t least = 8'388'608;
  auto const bytes = values.get<"zeroth.checkpoint.buffer_bytes">();
  return bytes == 0 || bytes >= least
             ? std::string{}
             : fmt::format("{}; allowed: 0 (no copies), or an integer of at least {}", bytes, least);
}

std::string copy_engines_read_windows(Values const& values) {
  return values.get<"zeroth.copy_engine_gather">() && !values.get<"zeroth.register_memory">()
             ? "true, but zeroth.register_memory is false, and copy engines gather only registered memory; set one of "
               "them"
             : "";
}

struct Rule {
  std::size_t key;  ///< The key of the problem, or of the note.
  std::string (*broken)(Values const& values);
};

constexpr Rule rules[] = {
    {index_of<"train_batch_size">, batch_is_product},
    {index_of<"train_micro_batch_size_per_gpu">, batch_fits},
    {index_of<"bf16.enabled">, one_16_bit_dtype},
    {index_of<"bf16.bf16_master_weights_and_grads">, bf16_masters_are_parameters},
    {index_of<"bf16.bf16_optimizer_states">, bf16_moments_have_bf16_masters},
    {index_of<"data_types.param_dtype">, param_dtype_is_computed},
    {index_of<"zeroth.gradient_dtype">, gradient_dtype_is_wide_or_computed},
    {index_of<"communication_data_type">, reduce_dtype_is_wide_or_gradient},
    {index_of<"data_types.grad_accum_dtype">, accumulate_dtype_is_used},
    {index_of<"zero_optimization.zero_hpz_partition_size">, parameters_are_cut_for_groups},
    {index_of<"zero_optimization.mics_shard_size">, states_are_cut_for_groups},
    {index_of<"zero_optimization.cpu_offload">, state_offload_is_said_once},
    {index_of<"zero_optimization.cpu_offload_param">, param_offload_is_said_once},
    {index_of<"zero_optimization.offload_optimizer.nvme_path">, states_on_disk_have_a_folder},
    {index_of<"zero_optimization.offload_param.device">, parameters_on_disk_are_cut},
    {index_of<"zero_optimization.offload_param.nvme_path">, params_on_disk_have_a_folder},
    {index_of<"aio.block_size">, requests_are_whole_blocks},
    {index_of<"aio.thread_count">, disk_threads_are_said_once},
    {index_of<"zeroth.two_level_sums">, sums_of_groups_have_groups},
    {index_of<"zeroth.group_size">, group_size_is_used},
    {index_of<"zeroth.reduce_codec">, codec_is_said_once},
    {index_of<"zeroth.reduce_codec">, signs_leave_errors},
    {index_of<"zeroth.gather_codec">, quantised_parameters_have_masters},
    {index_of<"zeroth.same_bits_at_any_ranks">, same_bits_are_kept},
    {index_of<"zeroth.delayed_update">, delayed_updates_are_possible},
    {index_of<"zeroth.parameter_server.servers">, servers_are_possible},
    {index_of<"zeroth.parameter_server.staleness">, staleness_is_possible},
    {index_of<"zeroth.parameter_server.colocated">, colocated_servers_are_possible},
    {index_of<"zeroth.ema.decay">, averages_are_of_wide_masters},
    {index_of<"tensor_parallel.autotp_size">, autotp_size_is_alike},
    {index_of<"tensor_parallel.tensor_parallel.tp_size">, tp_size_is_alike},
    {index_of<"zeroth.pipeline.chunks">, chunks_take_turns},
    {index_of<"zeroth.pipeline.schedule">, micro_steps_are_rounds},
    {index_of<"zeroth.pipeline.first_units">, chunks_begin_in_order},
    {index_of<"zeroth.pipeline.schedule_file">, schedule_has_a_file},
    {index_of<"zeroth.activation_checkpointing.units">, recomputed_units_are_said_once},
    {index_of<"zeroth.activation_checkpointing.offload">, activation_offload_is_said_once},
    {index_of<"zeroth.activation_checkpointing.offload">, offloaded_inputs_are_kept},
    {index_of<"zeroth.activation_checkpointing.nvme_path">, activations_on_disk_have_a_folder},
    {index_of<"zeroth.sparse_attention.mode">, sparse_attention_has_mode},
    {index_of<"zeroth.sparse_attention.block">, sparse_attention_may_have<"zeroth.sparse_attention.block">},
    {index_of<"zeroth.sparse_attention.attention">, sparse_attention_may_have<"zeroth.sparse_attention.attention">},
    {index_of<"zeroth.sparse_attention.different_layout_per_head">,
     sparse_attention_may_have<"zeroth.sparse_attention.different_layout_per_head">},
    {index_of<"zeroth.sparse_attention.num_local_blocks">,
     sparse_attention_may_have<"zeroth.sparse_attention.num_local_blocks">},
    {index_of<"zeroth.sparse_attention.num_global_blocks">,
     sparse_attention_may_have<"zeroth.sparse_attention.num_global_blocks">},
    {index_of<"zeroth.sparse_attention.num_different_global_patterns">,
     sparse_attention_may_have<"zeroth.sparse_attention.num_different_global_patterns">},
    {index_of<"zeroth.sparse_attention.horizontal_global_attention">,
     sparse_attention_may_have<"zeroth.sparse_attention.horizontal_global_attention">},
    {index_of<"zeroth.sparse_attention.num_random_blocks">,
     sparse_attention_may_have<"zeroth.sparse_attention.num_random_blocks">},
    {index_of<"zeroth.sparse_attention.num_sliding_window_blocks">,
     sparse_attention_may_have<"zeroth.sparse_attention.num_sliding_window_blocks">},
    {index_of<"zeroth.sparse_attention.local_window_blocks">,
     sparse_attention_may_have<"zeroth.sparse_attention.local_window_blocks">},
    {index_of<"zeroth.sparse_attention.global_block_indices">,
     sparse_attention_may_have<"zeroth.sparse_attention.global_block_indices">},
    {index_of<"zeroth.sparse_attention.global_block_end_indices">,
     sparse_attention_may_have<"zeroth.sparse_attention.global_block_end_indices">},
    {index_of<"zeroth.offload_update">, host_updates_what_it_has},
    {index_of<"zeroth.offload_update_threads">, threads_update_on_the_host},
    {index_of<"fp16.loss_scale_window">, dynamic_scale_has<"fp16.loss_scale_window">},
    {index_of<"fp16.hysteresis">, dynamic_scale_has<"fp16.hysteresis">},
    {index_of<"fp16.min_loss_scale">, dynamic_scale_has<"fp16.min_loss_scale">},
    {index_of<"fp16.min_loss_scale">, smallest_scale_is_reached_from_above},
    {index_of<"zeroth.copy_engine_gather">, copy_engines_read_windows},
    {index_of<"zeroth.skip_nonfinite">, skip_suits_the_dtype},
    {index_of<"optimizer.type">, optimizer_has_type},
    {index_of<"optimizer.params.adam_w_mode">, adamw_is_decoupled},
    {index_of<"optimizer.params.nesterov">, nesterov_has_momentum},
    {index_of<"optimizer.params.momentum">, muon_is_a_mean},
    {index_of<"optimizer.params.lr">, muon_rates_have_a_base},
    {index_of<"optimizer.params.min_coeff">, coefficients_ascend},
    {index_of<"zero_optimization.offload_optimizer.device">, states_are_in_memory},
    {index_of<"zero_optimization.cpu_offload">, states_have_no_older_offload},
    {index_of<"bf16.bf16_optimizer_states">, states_are_wide},
    {index_of<"zero_optimization.offload_param.device">, norms_are_of_masters},
    {index_of<"zero_optimization.stage">, one_bit_adam_has_all_momenta},
    {index_of<"gradient_clipping">, one_bit_adam_clips_nothing},
    {index_of<"zeroth.reduce_codec">, one_bit_adam_has_its_codec},
    {index_of<"zeroth.two_level_sums">, one_bit_adam_has_one_level},
    {index_of<"zeroth.same_bits_at_any_ranks">, one_bit_adam_depends_on_ranks},
    {index_of<"zeroth.mesh.pipeline">, one_bit_adam_has_one_stage},
    {index_of<"zeroth.mesh.tensor">, one_bit_adam_has_one_tensor_rank},
    {index_of<"zeroth.tied_gradients">, one_bit_adam_sums_uses_together},
    {index_of<"bf16.bf16_master_weights_and_grads">, one_bit_adam_has_masters},
    {index_of<"fp16.loss_scale">, one_bit_adam_has_one_scale},
    {index_of<"zeroth.checkpoint.buffer_bytes">, buffer_holds_pieces},
    {index_of<"scheduler.type">, scheduler_has_type},
    {index_of<"scheduler.type">, scheduler_has_what_it_needs},
    {index_of<"scheduler.params.milestones">, milestones_are_few},
    {index_of<"scheduler.params.cycle_momentum">, momentum_is_constant},
    {index_of<"scheduler.params.total_num_steps">, scheduler_has_end},
};

constexpr Rule assumptions[] = {
    {index_of<"optimizer.type">, nobody_names_an_optimizer},
    {index_of<"scheduler.params.total_num_steps">, warmup_outlasts_schedule},
    {index_of<"zeroth.delayed_update">, delayed_updates_overlap},
};

/// The message of `rule`. Empty if the rule holds, or needs an unknown value.
std::string said_by(Rule const& rule, Values const& values) {
  try {
    return rule.broken(values);
  } catch (Unknown const&) {
    return {};
  }
}

/// The types that have the parameter `key`.
std::vector<std::string_view> types_with(Key const& key) {
  std::vector<std::string_view> result;
  for (auto const& name : keys[type_of(key)].names) {
    if (has_word(key.types, name.stored)) {
      result.push_back(name.stored);
    }
  }
  return result;
}

/// Reports parameters of other optimizers or schedulers than the file's type; those of the same types in one message.
void check_parameters_of_types(Values const& values, Problems& problems) {
  struct Misfits {
    std::size_t first;
    std::vector<std::string_view> names;
  };
  std::vector<Misfits> all;
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].types.empty() || values.entries[i].source != Source::value || applies(keys[i], values) ||
        values.entries[type_of(keys[i])].source != Source::value) {
      continue;
    }
    auto const name = keys[i].path.substr(keys[i].path.rfind('.') + 1);
    auto const same = std::ranges::find_if(all, [&](auto const& misfits) {
      return type_of(keys[misfits.first]) == type_of(keys[i]) && keys[misfits.first].types == keys[i].types;
    });
    if (same == all.end()) {
      all.push_back({i, {}});
    } else {
      same->names.push_back(name);
    }
  }
  for (auto const& [first, others] : all) {
    auto const& key = keys[first];
    auto const also = others.empty() ? std::string{} : fmt::format("; neither is {}", fmt::join(others, ", "));
    problems.push_back({std::string{key.path}, values.entries[first].line,
                        fmt::format("not a parameter of {}, but of {}{}",
                                    std::get<std::string_view>(*values.entries[type_of(key)].value),
                                    fmt::join(types_with(key), " and "), also)});
  }
}

}  // namespace

void check_rules(Values const& values, Problems& problems) {
  for (auto const& rule : rules) {
    if (auto text = said_by(rule, values); !text.empty()) {
      problems.push_back({std::string{keys[rule.key].path}, values.entries[rule.key].line, std::move(text)});
    }
  }
  check_parameters_of_types(values, problems);
}

void note_assumptions(Values const& values, Notes& notes) {
  for (auto const& rule : assumptions) {
    if (auto text = said_by(rule, values); !text.empty()) {
      notes.push_back(
          {NoteKind::assumed, std::string{keys[rule.key].path}, values.entries[rule.key].line, std::move(text)});
    }
  }
}

}  // namespace zeroth::config
