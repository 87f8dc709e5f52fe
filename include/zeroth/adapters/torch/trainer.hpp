// SPDX-License-Identifier: Apache-2.0
/// Trains a libtorch module with an engine.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/buffers.hpp"
#include "zeroth/adapters/torch/generators.hpp"
#include "zeroth/adapters/torch/gradient_parts.hpp"
#include "zeroth/adapters/torch/heap.hpp"
#include "zeroth/adapters/torch/ignored.hpp"
#include "zeroth/adapters/torch/matrices.hpp"
#include "zeroth/adapters/torch/parameter_policies.hpp"
#include "zeroth/adapters/torch/passes.hpp"
#include "zeroth/adapters/torch/recompute.hpp"
#include "zeroth/adapters/torch/runtime.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/adapters/torch/unshard.hpp"
#include "zeroth/adapters/torch/weight_files.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::torch_adapter {

/// Options of a Trainer. They must be the same on all ranks.
struct TrainerOptions {
  /// The result of units(). Default: all modules made by holders of ZEROTH_TORCH_UNIT.
  std::optional<std::vector<ChosenUnit>> units{};
  /// Units to run again in backward instead of keeping their activations. They must come from ZEROTH_TORCH_UNIT.
  std::vector<UnitPolicy> recompute{};
  /// Units that stay gathered between forward and backward at stage 3: UnitOptions::reshard_after_forward.
  std::vector<UnitPolicy> no_reshard_after_forward{};
  /// Parameters that stay Float in a model of 16 bits, such as those of norms and routers, like FSDP2's
  /// MixedPrecisionPolicy of a module: by their names in named_parameters(), or by the module that registers them first
  /// (`every<torch::nn::LayerNormImpl>()`). The program converts the inputs of such modules; SyncBatchNorm takes any.
  /// See ParamOptions::compute.
  std::vector<UnitPolicy> fp32{};
  /// Maps a parameter name to options, e.g. no weight decay. A parameter that does not require a gradient is frozen in
  /// any case.
  std::function<ParamOptions(std::string const&)> parameter{};
  /// Whether a parameter, by its name here, is marked as a matrix, which Muon updates: see ParamOptions::matrix.
  /// Default: hidden_matrices() of the module, without parameters that `parameter` freezes. What `parameter` marks is
  /// marked in any case.
  MatrixRule matrix{};
  /// Maps a parameter's name in the module to its name here and in files, and a buffer's name to its name in weight
  /// files. Default: names are unchanged.
  std::function<std::string(std::string const&)> name{};
  /// Maps a parameter's name here to its initializer. nullopt keeps the module's values.
  std::function<std::optional<Init>(std::string const&)> start{};
  /// Parameters that the Trainer leaves alone, FSDP2's ignored_params: by their names in named_parameters(), or by the
  /// module that registers them first (`every<Impl>()`). They stay ordinary tensors of each rank, readable at any time,
  /// with any type: neither sharded nor updated, nor in checkpoints; weight files have them, like buffers. If they
  /// require gradients, autograd adds this rank's to `.grad`, with the loss scale and weight of
  /// MicroStep::backward(); the program sums them over the ranks and updates with an optimizer of its own. Their values
  /// must be the same on all ranks.
  std::vector<UnitPolicy> ignored{};
  std::uint64_t seed = 0;  ///< Seed of the random initializers Normal and Uniform.
  /// A safetensors file, such as Hugging Face's, with all parameters by their names here, to start from. It overrides
  /// the module's values and `start`. Empty: none. Buffers in the file are set as well.
  std::filesystem::path weights{};
  /// Tensors that weight files may contain besides parameters and buffers, by name: "h.*.attn.bias".
  std::vector<UnitPolicy> weights_left_out{};
  /// Buffers that checkpoints and weight files leave out, and that evaluations do not broadcast; Python's
  /// register_buffer(persistent=False).
  std::vector<UnitPolicy> buffers_not_saved{};
  /// Whether checkpoints contain the state of each rank's libtorch generator: 5 KiB for each distinct one.
  bool generators_saved = true;
};

/// Trains a module as a stage file configures it. The engine holds the memory of the module's parameters, which are
/// readable inside passes only.
///
/// Use the trainer and the module only on the thread that made the trainer. The module must outlive the trainer, and
/// its parameters are not readable afterwards.
///
///   auto net = zeroth::torch_adapter::seeded(7, [] { return Net{}; });
///   zeroth::torch_adapter::Trainer trainer{job, config, *net};
///   for (int step = 0; step < 500; ++step) {
///     for (auto micro : trainer.micro_steps()) {
///       auto const [x, y] = samples(micro.first_sample(), trainer.micro_batch());
///       micro.backward(torch::mse_loss(net(x), y));
///     }
///     print(trainer.step());
///   }
class Trainer {
 public:
  /// Takes over `root`'s parameters: their values, which must be the same on all ranks, and requires_grad. Tensors
  /// registered in several places are tied. Every rank holds the full module until then, unless deferred_init() made
  /// it. Collective; waits. Throws
  /// ContractError for a module without units, on another device than the CPU, or with parameters that are not Float,
  /// BFloat16 or Half, and as the constructor of AnyEngine does.
  Trainer(Job& job, Config const& config, ::torch::nn::Module& root, TrainerOptions const& options = {})
      : registered_{root}, rank_{job.rank()} {
    check_device(job);
    auto const chosen = choose(root, options);
    detail::Wishes wishes{options.name,  options.parameter, options.matrix,
                          options.start, options.seed,      !options.weights.empty()};
    for (auto const& [name, tensor] : detail::picked_parameters(root, options.fp32, "fp32")) {
      wishes.fp32.insert(tensor.unsafeGetTensorImpl());
    }
    detail::Ignored const ignored{root, options.ignored};
    auto described = detail::collect(root, chosen, wishes, ignored);
    ZEROTH_EXPECTS(!described.parameters.empty(),
                   ignored.named().empty()
                       ? "a Trainer was given a module without parameters"
                       : "a Trainer was given a module of which TrainerOptions::ignored selects all parameters");
    detail::arrange(described);
    auto const again = picked_units(described.units, options.recompute, "recompute");
    std::ranges::for_each(again, [&](std::size_t unit) { detail::check_holder(described.units[unit]); });
    for (auto const unit :
         picked_units(described.units, options.no_reshard_after_forward, "no_reshard_after_forward")) {
      described.units[unit].resharded = false;
    }
    if (job.world() > 1) {
      collectives_.emplace(job, "torch");
    }
    auto* const among = collectives_ ? &*collectives_ : nullptr;
    buffers_.emplace(root, options.buffers_not_saved, among);
    if (options.generators_saved) {
      generators_.emplace(job, among);
    }
    weight_files_.emplace(root, options.name, options.weights_left_out, options.buffers_not_saved, ignored);
    {
      auto const model = detail::declare(described, wishes);  // holds the module's values
      engine_.emplace(job, model, config);
    }
    auto const owner = std::make_shared<detail::Owner>();
    detail::adopt(described, owner, engine_->compute_dtype());
    detail::keep_heap();  // without the holes that the module's values leave, in which activations do not fit
    runtime_ = std::make_unique<detail::Runtime>(std::move(described), owner);
    runtime_->set_buffers(root.buffers());
    std::ranges::for_each(again, [this](std::size_t unit) { runtime_->recompute(unit); });
    if (!options.weights.empty()) {
      load_weights(options.weights);
    }
    detail::count_trainer(1);
  }
  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;
  ~Trainer() { detail::count_trainer(-1); }

  /// A step's micro-steps: gradient_accumulation_steps of the stage file. Call step() afterwards. DDP and
  /// FSDP accumulate by no_sync() over all but the last one; here zeroth.reduce_gradients decides when ranks
  /// communicate. Throws ContractError if the module's parameters have changed since the Trainer was made.
  [[nodiscard]] MicroSteps micro_steps() {
    registered_.check();
    return {runtime_.get(), engine_for("micro_steps()").micro_steps()};
  }
  /// See AnyEngine::step().
  std::optional<StepReport> step(StepOptions const& options = {}) { return engine_for("step()").step(options); }
  /// See AnyEngine::finish().
  std::optional<StepReport> finish() { return engine_for("finish()").finish(); }
  /// Like AnyEngine::evaluation(). Copies rank 0's buffers to all ranks first, as DDP does before each forward.
  [[nodiscard]] Evaluation evaluation(int passes) {
    auto& engine = engine_for("evaluation()");
    buffers_->broadcast();
    return {*runtime_, engine.evaluation(passes)};
  }
  [[nodiscard]] std::int64_t micro_batch() const noexcept { return engine_->micro_batch(); }  ///< Samples per pass.
  /// The stage file's compute dtype as a libtorch type. The program must convert inputs of other types.
  [[nodiscard]] at::ScalarType scalar_type() const noexcept { return detail::scalar_type(engine_->compute_dtype()); }
  /// The engine, for metrics, monitors, reports and traces.
  [[nodiscard]] AnyEngine& engine() noexcept { return *engine_; }

  /// Like AnyEngine::save(), and saves rank 0's buffers and every rank's generator. Throws ContractError, before
  /// anything is saved, if those and the program's state together exceed 1 MiB.
  Saving save(std::filesystem::path const& folder, SaveOptions const& options = {}) {
    auto& engine = engine_for("save()");
    auto const state = buffers_->pack(options.program_state, generators_ ? &*generators_ : nullptr);
    auto with_buffers = options;
    with_buffers.program_state = state;
    return engine.save(folder, with_buffers);
  }
  /// See AnyEngine::claim().
  void claim(std::filesystem::path const& folder) { engine_for("claim()").claim(folder); }
  /// Like AnyEngine::restore(), and restores the buffers. Restores this rank's generator if the same number of ranks
  /// saved it; otherwise rank 0 logs that it did not. Throws ContractError if the buffers do not match the module's;
  /// then parameters are restored, and no buffer is.
  Restored restore(std::filesystem::path const& path, RestoreOptions const& options = {}) {
    auto restored = engine_for("restore()").restore(path, options);
    unpack(restored);
    return restored;
  }
  /// Like AnyEngine::restore_latest(), and restores buffers and generator as restore() does.
  std::optional<Restored> restore_latest(std::filesystem::path const& folder, RestoreOptions const& options = {}) {
    auto restored = engine_for("restore_latest()").restore_latest(folder, options);
    if (restored) {
      unpack(*restored);
    }
    return restored;
  }
  /// Like AnyEngine::save_weights(): parameters by name. Adds rank 0's buffers, except those that
  /// TrainerOptions::buffers_not_saved selects, and ignored parameters, in their own types; with such tensors rank 0
  /// writes the file twice.
  void save_weights(std::filesystem::path const& file) {
    auto& engine = engine_for("save_weights()");
    weight_files_->save(file, rank_, collectives_ ? &*collectives_ : nullptr,
                        [&engine](std::filesystem::path const& path) { engine.save_weights(path); });
  }
  /// Like AnyEngine::load_weights(): the file must contain all parameters by name. It may contain buffers and ignored
  /// parameters, which are set, and tensors that TrainerOptions::weights_left_out selects, which are not read.
  void load_weights(std::filesystem::path const& file) {
    engine_for("load_weights()").load_weights(file, [this](std::string const& name) {
      return weight_files_->may_have(name);
    });
    weight_files_->set_tensors(file);
  }

  /// Returns a full parameter as the optimizer holds it, in Float, on all ranks: FSDP's summon_full_params for one
  /// parameter. See AnyEngine::read(). Throws ContractError for an unknown name.
  [[nodiscard]] at::Tensor read(std::string const& name) {
    auto const& parameter = find(name, "read()");
    auto values = at::empty(parameter.tensor.sizes(), at::kFloat);
    engine_for("read()").read(*parameter.id, {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    return values;
  }
  /// Sets a parameter's values, which have its shape and are the same on all ranks. See AnyEngine::write().
  void write(std::string const& name, at::Tensor const& values) {
    auto const& parameter = find(name, "write()");
    ZEROTH_EXPECTS(
        values.sizes() == parameter.tensor.sizes(),
        "write() of \"" + name + "\": " +
            c10::str("the values have shape ", values.sizes(), ", the parameter has ", parameter.tensor.sizes()));
    auto const row = values.detach().to(at::kCPU, at::kFloat).contiguous();
    engine_for("write()").write(*parameter.id, {row.data_ptr<float>(), static_cast<std::size_t>(row.numel())});
  }
  /// Gathers a unit, by its name in named_modules() ("" is the root), and keeps it gathered until the result is
  /// destroyed or the pass ends: FSDP2's unshard() and reshard(). For code that reads data_ptr(), such as a kernel in a
  /// torch::autograd::Function; in backward as well. Operations of libtorch need no call. A unit whose guard stays open
  /// around others takes a parameter slot from them. Collective among the ranks that use the unit. Throws ContractError
  /// for an unknown name, listing the units, outside of passes that read this module, and if slots do not suffice.
  Unsharded unshard(std::string const& unit) {
    return {*runtime_, runtime_->find(unit, "unshard()"), "unshard() of \"" + unit + "\""};
  }
  /// Lets the program read and change gradients between the last micro-step and step(): value clipping, noise, logs.
  /// See AnyEngine::edit_gradients().
  void edit_gradients(std::function<void(GradientPart const&)> const& edit) {
    ZEROTH_EXPECTS(edit, "edit_gradients(): the function is empty");
    engine_for("edit_gradients()").edit_gradients(detail::with_tensors(edit));
  }
  /// Rates by parameter that change while training runs. See AnyEngine::set_learning_rate_factors().
  void set_learning_rate_factors(std::function<std::optional<float>(std::string const& name)> const& factor_of) {
    engine_for("set_learning_rate_factors()").set_learning_rate_factors(factor_of);
  }
  /// The engine's handle of a parameter, for AnyEngine's own calls.
  [[nodiscard]] AnyParam const& param(std::string const& name) const { return *find(name, "param()").id; }
  /// The norm over all parameters: see AnyEngine::gradient_norm().
  [[nodiscard]] float gradient_norm() { return engine_for("gradient_norm()").gradient_norm(); }
  /// The norm of one trainable parameter, by name.
  [[nodiscard]] float gradient_norm(std::string const& name) {
    return engine_for("gradient_norm()").gradient_norm(*find(name, "gradient_norm()").id);
  }

 private:
  static void check_device(Job& job) {
    auto const device = job.make_device()->name();
    ZEROTH_EXPECTS(device == "cpu",
                   "a torch Trainer of a job on " + device +
                       ": this adapter supports CPUs only, and has not been run on a GPU; launch with DeviceKind::cpu");
  }
  static std::vector<ChosenUnit> choose(::torch::nn::Module const& root, TrainerOptions const& options) {
    if (options.units) {
      return *options.units;
    }
    auto marked = detail::submodules(root);
    std::erase_if(marked,
                  [](auto const& unit) { return dynamic_cast<detail::Marked const*>(unit.module.get()) == nullptr; });
    ZEROTH_EXPECTS(!marked.empty(),
                   "a Trainer was given a module without units, which would be gathered as a whole: declare holders by "
                   "ZEROTH_TORCH_UNIT in place of TORCH_MODULE, or give TrainerOptions::units, as units(root, "
                   "{\"layers.*\"}) makes them; units(root, {}) gathers the whole on purpose");
    return detail::outer_first(marked);
  }
  /// The units that `policies` of this option select.
  static std::vector<std::size_t> picked_units(std::vector<detail::Unit> const& units,
                                               std::vector<UnitPolicy> const& policies, char const* option) {
    std::vector<std::size_t> picked;
    for (auto const& policy : policies) {
      auto const before = picked.size();
      for (std::size_t u = 0; u < units.size(); ++u) {
        if (units[u].module != nullptr && policy(units[u].name, *units[u].module)) {
          picked.push_back(u);
        }
      }
      ZEROTH_EXPECTS(picked.size() > before,
                     std::string{"TrainerOptions::"} + option + ": " + policy.what() + " picks no unit");
    }
    return picked;
  }
  void unpack(Restored& restored) {
    auto const saved = buffers_->unpack(restored.program_state);
    if (generators_) {
      generators_->restore_from(saved);
    }
  }
  /// The engine, for a call that belongs outside of passes.
  [[nodiscard]] AnyEngine& engine_for(char const* call) {
    runtime_->expect_not_used(call);
    return *engine_;
  }
  friend class MicroStep;
  friend class EvaluationPass;
  void lend_to(detail::Runtime& user, detail::FrozenUses& uses) {
    uses.push_back(std::make_unique<detail::FrozenUse>(user, *runtime_, *engine_));
  }
  [[nodiscard]] detail::Parameter const& find(std::string const& name, char const* call) const {
    auto const& all = runtime_->parameters();
    auto const found = std::ranges::find(all, name, &detail::Parameter::name);
    ZEROTH_EXPECTS(found != all.end(),
                   std::string{call} + " of \"" + name + "\", which is not a parameter of the module");
    return *found;
  }

  detail::Registered registered_;
  int rank_;
  std::optional<Collectives> collectives_;  // where there are several ranks
  std::optional<detail::Buffers> buffers_;
  std::optional<detail::Generators> generators_;
  std::optional<detail::WeightFiles> weight_files_;
  std::optional<AnyEngine> engine_;
  std::unique_ptr<detail::Runtime> runtime_;  // ends first: it closes what the engine lent
};

inline void MicroStep::use_frozen(Trainer& other) {
  other.lend_to(*runtime_, frozen_);
  other.runtime_->prepare(*step_);
}
inline void EvaluationPass::use_frozen(Trainer& other) {
  other.lend_to(*runtime_, frozen_);
  other.buffers_->broadcast();
}

}  // namespace zeroth::torch_adapter
