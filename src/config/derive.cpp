// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "config/values.hpp"

namespace zeroth::config {
namespace {

std::int64_t quotient(std::int64_t dividend, std::int64_t divisor) {
  return dividend % divisor == 0 ? dividend / divisor : throw Unknown{};  // a rule reports the mistake
}

bool derive_one(Key const& key, Entry& entry, Values const& values) {
  if (entry.value || entry.source == Source::mistake) {
    return false;
  }
  try {
    bool const automatic = entry.source == Source::automatic;
    entry.value = automatic && key.automatic              ? Value{values.job().largest_unit_count}
                  : automatic && key.when_auto != nullptr ? key.when_auto(values)
                                                          : key.derive(values);
    return true;
  } catch (Unknown const&) {
    return false;
  }
}

}  // namespace

Values::Values() {
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].derive == nullptr) {
      entries[i].value = keys[i].value;
    }
  }
}

void derive_all(Values& values) {
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t i = 0; i < key_count; ++i) {
      progress = derive_one(keys[i], values.entries[i], values) || progress;
    }
  }
}

std::string_view compute_dtype(Values const& values) {
  bool const fp16 = values.get<"fp16.enabled">();
  bool const bf16 = values.get<"bf16.enabled">();
  if (fp16 && bf16) {
    throw Unknown{};
  }
  return fp16 ? "fp16" : (bf16 ? "bf16" : "fp32");
}

bool applies(Key const& key, Values const& values) {
  if (key.types.empty()) {
    return true;
  }
  auto const& type = values.entries[type_of(key)].value;
  auto const* const name = type ? std::get_if<std::string_view>(&*type) : nullptr;
  return name != nullptr && has_word(key.types, *name);
}

namespace derive {

// The factors of train = micro x accumulation x world that the file leaves out. Unknown as long as the world is
// unknown.

Value train_batch(Values const& values) {
  // Each factor fits an int, but the product of all three need not fit 64 bits, so it is a double. Exact up to
  // int_limit.
  auto const micro = static_cast<double>(values.get<"train_micro_batch_size_per_gpu">());
  auto const accumulation = static_cast<double>(values.get<"gradient_accumulation_steps">());
  double const product = micro * accumulation * values.job().world;
  return product <= int_limit ? Value{static_cast<std::int64_t>(product)} : throw Unknown{};
}

Value micro_batch(Values const& values) {
  return quotient(values.get<"train_batch_size">(), values.get<"gradient_accumulation_steps">() * values.job().world);
}

Value accumulation_steps(Values const& values) {
  bool const both = values.says<"train_batch_size">() && values.says<"train_micro_batch_size_per_gpu">();
  return both ? quotient(values.get<"train_batch_size">(),
                         values.get<"train_micro_batch_size_per_gpu">() * values.job().world)
              : std::int64_t{1};
}

Value left_open(Values const& /*values*/) { throw Unknown{}; }

namespace {
/// "auto" for one 16-bit dtype: false if the other one is enabled.
Value not_where(bool other_says, bool other_enabled) {
  return other_says && other_enabled ? Value{false} : throw Unknown{};
}
}  // namespace

Value fp16_where_bf16_decides(Values const& values) {
  return not_where(values.says<"bf16.enabled">(), values.get<"bf16.enabled">());
}
Value bf16_where_fp16_decides(Values const& values) {
  return not_where(values.says<"fp16.enabled">(), values.get<"fp16.enabled">());
}

Value rate_of_the_optimizer(Values const& values) {
  return values.says<"optimizer.params.lr">() ? Value{values.get<"optimizer.params.lr">()} : throw Unknown{};
}

Value param_dtype(Values const& values) { return compute_dtype(values); }

Value gradient_dtype(Values const& values) { return compute_dtype(values); }

Value reduce_dtype(Values const& values) { return values.get<"zeroth.gradient_dtype">(); }

Value accumulate_dtype(Values const& values) {
  if (values.get<"bf16.bf16_master_weights_and_grads">()) {
    return "bf16";
  }
  if (values.get<"zeroth.same_bits_at_any_ranks">()) {
    return "fp32";
  }
  if (values.get<"gradient_accumulation_steps">() == 1) {
    return values.get<"communication_data_type">();
  }
  return values.get<"zeroth.reduce_gradients">() == "every_micro_step" ? Value{"fp32"} : Value{};
}

Value reduce_gradients(Values const& values) {
  bool const once = values.get<"zero_optimization.stage">() < 2 && !values.get<"zeroth.same_bits_at_any_ranks">();
  return once ? "last_micro_step" : "every_micro_step";
}

Value reduce_codec(Values const& values) {
  return Value{values.get<"zero_optimization.zero_quantized_gradients">() ? "int4" : "none"};
}

Value gather_codec(Values const& values) {
  return Value{values.get<"zero_optimization.zero_quantized_weights">() ? "int8" : "none"};
}

Value tied_gradients(Values const& values) { return values.get<"zeroth.mesh.pipeline">() > 1 ? "apart" : "together"; }

Value skip_nonfinite(Values const& values) {
  auto const compute = compute_dtype(values);
  return compute == "bf16" ? values.get<"bf16.check_grad_overflow">() : compute == "fp16";
}

Value overlap(Values const& values) { return values.get<"zero_optimization.stage">() == 3; }

Value pipeline(Values const& values) {
  bool const older_word =
      values.says<"zero_optimization.cpu_offload">() && values.get<"zero_optimization.cpu_offload">();
  bool const stays = values.get<"zero_optimization.offload_optimizer.device">() == "none" && !older_word;
  return stays ? Value{} : Value{values.get<"zero_optimization.overlap_comm">()};
}

Value nothing_persists(Values const& /*values*/) { return std::int64_t{0}; }

Value everything_may_persist(Values const& /*values*/) { return std::numeric_limits<std::int64_t>::max(); }

Value disk_threads(Values const& values) { return values.get<"aio.thread_count">(); }

Value gradient_slots(Values const& values) {
  return std::int64_t{values.get<"zero_optimization.overlap_comm">() ? 2 : 1};
}

Value group_size(Values const& values) {
  auto const parameters = values.get<"zero_optimization.zero_hpz_partition_size">();
  auto const states = values.get<"zero_optimization.mics_shard_size">();
  return parameters > 1 ? Value{parameters} : states > 0 ? Value{states} : Value{};
}

Value clipping(Values const& values) { return values.get<"optimizer.type">() == "OneBitAdam" ? 0.0 : 1.0; }

Value learning_rate(Values const& values) {
  auto const type = values.get<"optimizer.type">();
  return type == "Adagrad" || type == "RMSprop" ? 1e-2 : type == "Muon" ? 2e-2 : 1e-3;
}

Value epsilon(Values const& values) { return values.get<"optimizer.type">() == "Adagrad" ? 1e-10 : 1e-8; }

Value momentum(Values const& values) { return values.get<"optimizer.type">() == "Muon" ? 0.95 : 0.0; }
Value nesterov(Values const& values) { return values.get<"optimizer.type">() == "Muon"; }
Value muon_rate(Values const& values) { return values.get<"optimizer.params.lr">(); }
Value adam_rate(Values const& values) {
  return values.says<"optimizer.params.lr">() ? values.get<"optimizer.params.lr">() : 3e-4;
}

Value cycle_second(Values const& values) { return values.get<"scheduler.params.cycle_first_step_size">(); }
Value cycle_second_stairs(Values const& values) { return values.get<"scheduler.params.cycle_first_stair_count">(); }
Value decay_factor(Values const& values) {
  return values.get<"scheduler.type">() == "ExponentialLR" ? Value{} : 0.1;  // a rule reports that it is missing
}

Value warmup_max(Values const& values) {
  auto const type = values.get<"scheduler.type">();
  return type == "WarmupLR" ? values.get<"optimizer.params.lr">() : 1e-3;
}

}  // namespace derive
}  // namespace zeroth::config
