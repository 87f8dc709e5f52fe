// SPDX-License-Identifier: Apache-2.0
#include "config/assemble.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace zeroth::config {
namespace {

bool accumulates_in_fp32(Values const& values) {
  auto const& accumulate = values.entries[index_of<"data_types.grad_accum_dtype">].value;
  return accumulate && *accumulate == Value{"fp32"};
}

PrecisionSettings precision(Values const& values) {
  auto const reduce = dtype_named(values.get<"communication_data_type">());
  // Otherwise it is null, or the dtype in which backward accumulates micro-steps: the shard keeps the reduced gradient.
  bool const wide = accumulates_in_fp32(values);
  return {.compute = dtype_named(compute_dtype(values)),
          .gradient = dtype_named(values.get<"zeroth.gradient_dtype">()),
          .reduce = reduce,
          .accumulate = wide ? Dtype::fp32 : reduce,
          .master = values.get<"bf16.bf16_master_weights_and_grads">() ? Dtype::bf16 : Dtype::fp32,
          .states = values.get<"bf16.bf16_optimizer_states">() ? Dtype::bf16 : Dtype::fp32};
}

template <Path P>
float real(Values const& values) {
  return static_cast<float>(values.get<P>());
}

optim::Rule adam(Values const& values) {
  auto const [beta1, beta2] = values.get<"optimizer.params.betas">();
  return optim::Adam{.beta1 = beta1,
                     .beta2 = beta2,
                     .epsilon = real<"optimizer.params.eps">(values),
                     .weight_decay = real<"optimizer.params.weight_decay">(values),
                     .decoupled_decay = values.get<"optimizer.params.adam_w_mode">(),
                     .bias_correction = values.get<"optimizer.params.bias_correction">()};
}

optim::Rule sgd(Values const& values) {
  auto const weight_decay = real<"optimizer.params.weight_decay">(values);
  auto const momentum = real<"optimizer.params.momentum">(values);
  if (momentum == 0) {
    return optim::Sgd{.weight_decay = weight_decay};
  }
  return optim::Momentum{.momentum = momentum,
                         .dampening = values.get<"optimizer.params.dampening">(),
                         .weight_decay = weight_decay,
                         .nesterov = values.get<"optimizer.params.nesterov">()};
}

optim::Rule adagrad(Values const& values) {
  return optim::Adagrad{.epsilon = real<"optimizer.params.eps">(values),
                        .weight_decay = real<"optimizer.params.weight_decay">(values),
                        .rate_decay = real<"optimizer.params.lr_decay">(values),
                        .initial_sum = real<"optimizer.params.initial_accumulator_value">(values)};
}

optim::Rule rmsprop(Values const& values) {
  optim::RmsProp const plain{.alpha = values.get<"optimizer.params.alpha">(),
                             .epsilon = real<"optimizer.params.eps">(values),
                             .weight_decay = real<"optimizer.params.weight_decay">(values)};
  auto const momentum = real<"optimizer.params.momentum">(values);
  return momentum == 0 ? optim::Rule{plain} : optim::RmsPropMomentum{.plain = plain, .momentum = momentum};
}

optim::Rule lion(Values const& values) {
  auto const [beta1, beta2] = values.get<"optimizer.params.betas">();
  return optim::Lion{.beta1 = beta1, .beta2 = beta2, .weight_decay = real<"optimizer.params.weight_decay">(values)};
}

optim::Rule lamb(Values const& values) {
  auto const [beta1, beta2] = values.get<"optimizer.params.betas">();
  return optim::Lamb{.beta1 = beta1,
                     .beta2 = beta2,
                     .epsilon = real<"optimizer.params.eps">(values),
                     .weight_decay = real<"optimizer.params.weight_decay">(values),
                     .max_coefficient = real<"optimizer.params.max_coeff">(values),
                     .min_coefficient = real<"optimizer.params.min_coeff">(values),
                     .bias_correction = values.get<"optimizer.params.bias_correction">()};
}

optim::Rule one_bit_adam(Values const& values) {
  auto plain = std::get<optim::Adam>(adam(values));
  plain.decoupled_decay = true;
  return optim::OneBitAdam{.adam = plain, .freeze_step = values.get<"optimizer.params.freeze_step">()};
}

struct NamedRule {
  std::string_view type;
  optim::Rule (*made)(Values const& values);
};
constexpr NamedRule named_rules[] = {{"AdamW", adam},
                                     {"Adam", adam},
                                     {"SGD", sgd},
                                     {"Adagrad", adagrad},
                                     {"RMSprop", rmsprop},
                                     {"Lion", lion},
                                     {"Lamb", lamb},
                                     {"Muon", adam},  // and add_matrix_update()
                                     {"OneBitAdam", one_bit_adam}};
static_assert(std::size(named_rules) == std::size(optimizer_names));

optim::Rule rule(Values const& values, optim::CustomRule const* own) {
  return own != nullptr
             ? optim::Rule{*own}
             : std::ranges::find(named_rules, values.get<"optimizer.type">(), &NamedRule::type)->made(values);
}

optim::NewtonSchulzMethod method_named(std::string_view name) {
  return name == "gram" ? optim::NewtonSchulzMethod::gram : optim::NewtonSchulzMethod::standard;
}

/// Muon updates only matrices, and AdamW all other parameters. A schedule sets the rate of `lr`.
void add_matrix_update(Values const& values, Settings& settings) {
  auto const lr = values.get<"optimizer.params.lr">();
  auto const ratio = [lr](double rate) { return static_cast<float>(rate == lr ? 1 : rate / lr); };
  settings.matrix_update =
      optim::Update{.rule = optim::Muon{.momentum = values.get<"optimizer.params.momentum">(),
                                        .weight_decay = real<"optimizer.params.weight_decay">(values),
                                        .nesterov = values.get<"optimizer.params.nesterov">(),
                                        .steps = static_cast<int>(values.get<"optimizer.params.ns_steps">()),
                                        .adjust_rate = values.get<"optimizer.params.adjust_lr_fn">() == "original"
                                                           ? optim::AdjustRate::original
                                                           : optim::AdjustRate::match_rms_adamw,
                                        .method = method_named(values.get<"optimizer.params.ns_method">())},
                    .rounding_seed = settings.update.rounding_seed,
                    .learning_rate_factor = ratio(values.get<"optimizer.params.muon_lr">())};
  settings.update.learning_rate_factor = ratio(values.get<"optimizer.params.adam_lr">());
}

struct NamedSchedule {
  std::string_view type;
  optim::ScheduleKind kind;
};
constexpr NamedSchedule named_schedules[] = {{"WarmupLR", optim::ScheduleKind::warmup},
                                             {"WarmupDecayLR", optim::ScheduleKind::warmup_decay},
                                             {"WarmupCosineLR", optim::ScheduleKind::warmup_cosine},
                                             {"OneCycle", optim::ScheduleKind::one_cycle},
                                             {"LRRangeTest", optim::ScheduleKind::range_test},
                                             {"ConstantLR", optim::ScheduleKind::constant_factor},
                                             {"LinearLR", optim::ScheduleKind::linear_factor},
                                             {"CosineAnnealingLR", optim::ScheduleKind::cosine_annealing},
                                             {"StepLR", optim::ScheduleKind::step},
                                             {"MultiStepLR", optim::ScheduleKind::multi_step},
                                             {"ExponentialLR", optim::ScheduleKind::exponential}};
static_assert(std::size(named_schedules) == std::size(scheduler_names));

void add_cycle(Values const& values, optim::LearningRateSchedule& schedule) {
  schedule.cycle_min = real<"scheduler.params.cycle_min_lr">(values);
  schedule.cycle_max = real<"scheduler.params.cycle_max_lr">(values);
  schedule.cycle_first = values.get<"scheduler.params.cycle_first_step_size">();
  schedule.cycle_second = values.get<"scheduler.params.cycle_second_step_size">();
  schedule.cycle_first_stairs = values.get<"scheduler.params.cycle_first_stair_count">();
  schedule.cycle_second_stairs = values.get<"scheduler.params.cycle_second_stair_count">();
  schedule.decay_interval = values.get<"scheduler.params.decay_step_size">();
  schedule.decay_rate = real<"scheduler.params.decay_lr_rate">(values);
}

/// torch's schedules. What a kind does not use keeps its default.
void add_torch(Values const& values, optim::LearningRateSchedule& schedule) {
  using enum optim::ScheduleKind;
  switch (schedule.kind) {
    case constant_factor:
      schedule.start_factor = values.get<"scheduler.params.factor">();
      schedule.total_steps = values.get<"scheduler.params.total_iters">();
      break;
    case linear_factor:
      schedule.start_factor = values.get<"scheduler.params.start_factor">();
      schedule.end_factor = values.get<"scheduler.params.end_factor">();
      schedule.total_steps = values.get<"scheduler.params.total_iters">();
      break;
    case cosine_annealing:
      schedule.eta_min = values.get<"scheduler.params.eta_min">();
      schedule.total_steps = values.get<"scheduler.params.T_max">();
      break;
    case step:
      schedule.gamma = values.get<"scheduler.params.gamma">();
      schedule.step_size = values.get<"scheduler.params.step_size">();
      break;
    case multi_step: {
      schedule.gamma = values.get<"scheduler.params.gamma">();
      auto const milestones = values.get<"scheduler.params.milestones">().copy();
      schedule.milestone_count = static_cast<std::int32_t>(milestones.size());
      std::ranges::transform(milestones, schedule.milestones.begin(),
                             [](std::int64_t milestone) { return static_cast<std::int32_t>(milestone); });
      break;
    }
    case exponential: schedule.gamma = values.get<"scheduler.params.gamma">(); break;
    default: break;
  }
}

optim::LearningRateSchedule schedule(Values const& values) {
  optim::LearningRateSchedule result;
  result.base = static_cast<float>(values.get<"optimizer.params.lr">());
  if (!values.says<"scheduler.type">()) {
    return result;  // constant
  }
  result.kind = std::ranges::find(named_schedules, values.get<"scheduler.type">(), &NamedSchedule::type)->kind;
  if (result.kind == optim::ScheduleKind::one_cycle) {
    add_cycle(values, result);
  }
  add_torch(values, result);
  result.range_min = real<"scheduler.params.lr_range_test_min_lr">(values);
  result.range_rate = real<"scheduler.params.lr_range_test_step_rate">(values);
  result.range_interval = values.get<"scheduler.params.lr_range_test_step_size">();
  result.range_staircase = values.get<"scheduler.params.lr_range_test_staircase">();
  result.warmup = values.get<"scheduler.params.warmup_type">() == "log" ? optim::WarmupKind::logarithmic
                                                                        : optim::WarmupKind::linear;
  result.warmup_steps = values.get<"scheduler.params.warmup_num_steps">();
  result.warmup_min = static_cast<float>(values.get<"scheduler.params.warmup_min_lr">());
  result.warmup_max = static_cast<float>(values.get<"scheduler.params.warmup_max_lr">());
  result.warmup_min_ratio = static_cast<float>(values.get<"scheduler.params.warmup_min_ratio">());
  result.cosine_min_ratio = static_cast<float>(values.get<"scheduler.params.cos_min_ratio">());
  if (result.kind == optim::ScheduleKind::warmup_decay || result.kind == optim::ScheduleKind::warmup_cosine) {
    result.total_steps = values.get<"scheduler.params.total_num_steps">();
  }
  return result;
}

optim::LossScaleRules loss_scale(Values const& values) {
  if (!values.get<"fp16.enabled">()) {
    return {};  // static, 1
  }
  auto const scale = values.get<"fp16.loss_scale">();
  auto const power = static_cast<int>(values.get<"fp16.initial_scale_power">());
  bool const dynamic = scale == 0;
  return {.dynamic = dynamic,
          .initial = static_cast<float>(dynamic ? std::ldexp(1.0, power) : scale),
          .minimum = static_cast<float>(values.get<"fp16.min_loss_scale">()),
          .window = values.get<"fp16.loss_scale_window">(),
          .hysteresis = static_cast<int>(values.get<"fp16.hysteresis">()),
          .consecutive_hysteresis = values.get<"fp16.consecutive_hysteresis">()};
}

Codec codec_named(std::string_view name) {
  constexpr std::array all{Codec::none, Codec::exact, Codec::int8, Codec::int4, Codec::sign};
  return *std::ranges::find_if(all, [&](Codec codec) { return name_of(codec) == name; });
}

GroupSettings groups(Values const& values) {
  auto const world = values.job().world;
  auto const& said = values.entries[index_of<"zeroth.group_size">].value;
  auto const* const given = said ? std::get_if<std::int64_t>(&*said) : nullptr;
  auto const size = given != nullptr ? static_cast<int>(*given) : world;
  bool const cut_states = values.get<"zero_optimization.mics_shard_size">() > 0;
  return {.size = size,
          .count = world / size,
          .cut_parameters = cut_states || values.get<"zero_optimization.zero_hpz_partition_size">() > 1,
          .cut_states = cut_states,
          .two_level_sums = values.get<"zeroth.two_level_sums">()};
}

template <Path P>
bool enabled(Values const& values) {
  return values.says<P>() && values.get<P>();
}

OffloadDevice offload_device(std::string_view name) noexcept {
  return name == "nvme" ? OffloadDevice::nvme : name == "cpu" ? OffloadDevice::cpu : OffloadDevice::none;
}

OffloadSettings offload(Values const& values) {
  OffloadSettings result;
  result.optimizer = offload_device(values.get<"zero_optimization.offload_optimizer.device">());
  result.parameters = offload_device(values.get<"zero_optimization.offload_param.device">());
  if (result.optimizer == OffloadDevice::none && enabled<"zero_optimization.cpu_offload">(values)) {
    result.optimizer = OffloadDevice::cpu;
  }
  if (result.parameters == OffloadDevice::none && enabled<"zero_optimization.cpu_offload_param">(values)) {
    result.parameters = OffloadDevice::cpu;
  }
  if (result.optimizer == OffloadDevice::nvme) {
    result.folder = values.get<"zero_optimization.offload_optimizer.nvme_path">();
  }
  if (result.optimizer != OffloadDevice::none) {
    result.read_ahead = values.get<"zero_optimization.offload_optimizer.pipeline_read">();
    result.write_behind = values.get<"zero_optimization.offload_optimizer.pipeline_write">();
  }
  if (result.parameters == OffloadDevice::nvme) {
    result.parameter_folder = values.get<"zero_optimization.offload_param.nvme_path">();
  }
  result.parameter_buffers = static_cast<int>(values.get<"zero_optimization.offload_param.buffer_count">());
  result.parameter_buffer_count = values.get<"zero_optimization.offload_param.buffer_size">();
  result.parameters_in_memory_count = values.get<"zero_optimization.offload_param.max_in_cpu">();
  result.ratio = values.get<"zero_optimization.offload_optimizer.ratio">();
  result.update = values.get<"zeroth.offload_update">() == "host" ? OffloadUpdate::host : OffloadUpdate::device;
  result.update_threads = static_cast<int>(values.get<"zeroth.offload_update_threads">());
  result.buffer_count = static_cast<int>(values.get<"zero_optimization.offload_optimizer.buffer_count">());
  result.tile_count = values.get<"zero_optimization.sub_group_size">();
  result.piece_bytes = values.get<"aio.block_size">();
  result.requests = static_cast<int>(values.get<"aio.queue_depth">() * values.get<"aio.intra_op_parallelism">());
  return result;
}

optim::StepRules step_rules(Values const& values, optim::Rule const& rule) {
  optim::StepRules rules;
  rules.betas = optim::betas_of(rule);
  if (auto const* const one_bit = std::get_if<optim::OneBitAdam>(&rule)) {
    rules.second_moves_until = one_bit->freeze_step;
  }
  rules.schedule = schedule(values);
  rules.loss_scale = loss_scale(values);
  rules.clip = static_cast<float>(values.get<"gradient_clipping">());
  rules.skip_nonfinite = values.get<"zeroth.skip_nonfinite">();
  return rules;
}

}  // namespace

Dtype dtype_named(std::string_view name) {
  return name == "fp16" ? Dtype::fp16 : (name == "bf16" ? Dtype::bf16 : Dtype::fp32);
}

namespace {

template <Path enabled, Path output, Path name>
MonitorSettings monitor(Values const& values) {
  return {values.get<enabled>(), std::string{values.get<output>()}, std::string{values.get<name>()}};
}

template <Path P>
std::string text(Values const& values) {
  return values.says<P>() ? std::string{values.get<P>()} : std::string{};
}

ReportSettings reports(Values const& values) {
  return {
      .steps_per_print = values.says<"steps_per_print">() ? values.get<"steps_per_print">() : 0,
      .wall_clock_breakdown = values.get<"wall_clock_breakdown">(),
      .memory_breakdown = values.get<"memory_breakdown">(),
      .dump_state = values.get<"dump_state">(),
      .tensorboard = monitor<"tensorboard.enabled", "tensorboard.output_path", "tensorboard.job_name">(values),
      .csv = monitor<"csv_monitor.enabled", "csv_monitor.output_path", "csv_monitor.job_name">(values),
      .wandb = {.enabled = values.get<"wandb.enabled">(),
                .project = std::string{values.get<"wandb.project">()},
                .team = text<"wandb.team">(values)},
      .comms = {.enabled = values.get<"comms_logger.enabled">(), .verbose = values.get<"comms_logger.verbose">()},
      .flops = {.enabled = values.get<"flops_profiler.enabled">(),
                .profile_step = values.get<"flops_profiler.profile_step">(),
                .recompute_fwd_factor = values.get<"flops_profiler.recompute_fwd_factor">(),
                .detailed = values.get<"flops_profiler.detailed">(),
                .output_file = text<"flops_profiler.output_file">(values)},
  };
}

}  // namespace

std::optional<optim::NewtonSchulzMethod> newton_schulz_method(Values const& values) {
  return values.get<"optimizer.type">() == "Muon"
             ? std::optional{method_named(values.get<"optimizer.params.ns_method">())}
             : std::nullopt;
}

PipelineSettings pipeline(Values const& values) {
  std::vector<std::uint32_t> first_units;
  if (values.says<"zeroth.pipeline.first_units">()) {
    std::ranges::transform(values.get<"zeroth.pipeline.first_units">().copy(), std::back_inserter(first_units),
                           [](std::int64_t unit) { return static_cast<std::uint32_t>(unit); });
  }
  auto const* const named =
      std::ranges::find(pipeline_schedule_names, values.get<"zeroth.pipeline.schedule">(), &Name::stored);
  auto const partition = values.get<"zeroth.pipeline.partition">();
  return {.stages = static_cast<int>(values.get<"zeroth.mesh.pipeline">()),
          .schedule = static_cast<PipelineSchedule>(named - std::begin(pipeline_schedule_names)),
          .chunks = static_cast<int>(values.get<"zeroth.pipeline.chunks">()),
          .partition = partition == "units"   ? PipelinePartition::units
                       : partition == "flops" ? PipelinePartition::flops
                                              : PipelinePartition::parameters,
          .first_units = std::move(first_units),
          .schedule_file = text<"zeroth.pipeline.schedule_file">(values),
          .tied_gradients =
              values.get<"zeroth.tied_gradients">() == "apart" ? TiedGradients::apart : TiedGradients::together};
}

ParameterServerSettings parameter_server(Values const& values) {
  return {.servers = static_cast<int>(values.get<"zeroth.parameter_server.servers">()),
          .staleness = static_cast<int>(values.get<"zeroth.parameter_server.staleness">()),
          .colocated = values.get<"zeroth.parameter_server.colocated">()};
}

int tensor_ranks(Values const& values) { return static_cast<int>(values.get<"zeroth.mesh.tensor">()); }

Settings assemble(Values const& values, optim::CustomRule const* own) {
  Settings settings;
  settings.stage = static_cast<int>(values.get<"zero_optimization.stage">());
  settings.batch = {.train = values.get<"train_batch_size">(),
                    .micro = values.get<"train_micro_batch_size_per_gpu">(),
                    .accumulation = values.get<"gradient_accumulation_steps">()};
  settings.precision = precision(values);
  settings.reduce_gradients = values.get<"zeroth.reduce_gradients">() == "every_micro_step"
                                  ? ReduceGradients::every_micro_step
                                  : ReduceGradients::last_micro_step;
  settings.reduce_codec = codec_named(values.get<"zeroth.reduce_codec">());
  settings.gather_codec = codec_named(values.get<"zeroth.gather_codec">());
  settings.reduce_gradients_given =
      values.says<"zeroth.reduce_gradients">() || values.get<"zeroth.same_bits_at_any_ranks">();
  settings.sums_micro_steps = settings.reduce_gradients == ReduceGradients::last_micro_step &&
                              settings.batch.accumulation > 1 && settings.precision.gradient != Dtype::fp32 &&
                              accumulates_in_fp32(values);
  settings.delayed_update = values.get<"zeroth.delayed_update">();
  settings.replay_every = values.get<"zeroth.replay_every">();
  settings.same_bits_at_any_ranks = values.get<"zeroth.same_bits_at_any_ranks">();
  settings.pipeline = pipeline(values);
  settings.parameter_server = parameter_server(values);
  settings.tensor_ranks = tensor_ranks(values);
  settings.groups = groups(values);
  settings.offload = offload(values);
  settings.activations = activations(values);
  settings.reduce_bucket_count = values.get<"zero_optimization.reduce_bucket_size">();
  settings.prefetch_count = values.get<"zero_optimization.stage3_prefetch_bucket_size">();
  settings.max_live_count = values.get<"zero_optimization.stage3_max_live_parameters">();
  settings.persistence = {values.get<"zero_optimization.stage3_param_persistence_threshold">(),
                          values.get<"zero_optimization.stage3_model_persistence_threshold">()};
  settings.gradient_slots = static_cast<int>(values.get<"zeroth.gradient_slots">());
  settings.overlap_comm = values.get<"zero_optimization.overlap_comm">();
  settings.update = {.rule = rule(values, own), .rounding_seed = values.get<"zeroth.stochastic_rounding_seed">()};
  if (own == nullptr && values.get<"optimizer.type">() == "Muon") {
    add_matrix_update(values, settings);
  }
  if (values.says<"zeroth.ema.decay">()) {
    settings.update.ema_decay = values.get<"zeroth.ema.decay">();
    if (settings.matrix_update) {
      settings.matrix_update->ema_decay = settings.update.ema_decay;
    }
  }
  settings.rules = step_rules(values, settings.update.rule);
  settings.timeout = std::chrono::milliseconds{values.get<"zeroth.timeout_ms">()};
  settings.check = values.get<"zeroth.check">();
  settings.single_communicator = values.get<"zeroth.single_communicator">();
  settings.copy_engine_gather = values.get<"zeroth.copy_engine_gather">();
  settings.register_memory = values.get<"zeroth.register_memory">();
  settings.poison = values.get<"zeroth.poison">();
  settings.flight_recorder = values.get<"zeroth.flight_recorder">();
  if (values.get<"zero_optimization.stage3_gather_16bit_weights_on_model_save">()) {
    settings.saved_weights = settings.precision.compute;
  }
  settings.reports = reports(values);
  settings.checkpoint = {.buffer_bytes = values.get<"zeroth.checkpoint.buffer_bytes">(),
                         .keep = values.get<"zeroth.checkpoint.keep">(),
                         .direct_io = values.get<"zeroth.checkpoint.direct_io">()};
  return settings;
}

}  // namespace zeroth::config

std::string_view zeroth::name_of(PipelineSchedule schedule) noexcept {
  return config::pipeline_schedule_names[static_cast<std::size_t>(schedule)].stored;
}
