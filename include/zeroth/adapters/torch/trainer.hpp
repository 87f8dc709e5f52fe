// SPDX-License-Identifier: Apache-2.0
/// A libtorch module under an engine.
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
#include "zeroth/adapters/torch/heap.hpp"
#include "zeroth/adapters/torch/passes.hpp"
#include "zeroth/adapters/torch/recompute.hpp"
#include "zeroth/adapters/torch/runtime.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/adapters/torch/weight_files.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::torch_adapter {

/// The same on all ranks.
struct TrainerOptions {
  /// What units() gave. Not given: all modules that holders of ZEROTH_TORCH_UNIT made.
  std::optional<std::vector<ChosenUnit>> units{};
  /// Units to run again in backward, so that their activations do not stay; of ZEROTH_TORCH_UNIT alone.
  std::vector<UnitPolicy> recompute{};
  /// Of a parameter's name: how it is trained, say without decay. What does not require a gradient is frozen anyway.
  std::function<ParamOptions(std::string const&)> parameter{};
  /// Of a parameter's name in the module: its name here, and in files; of a buffer's, that in weight files. Not given:
  /// the same.
  std::function<std::string(std::string const&)> name{};
  /// Of a parameter's name here: how it starts; nothing: with the module's own values.
  std::function<std::optional<Init>(std::string const&)> start{};
  std::uint64_t seed = 0;  ///< Of starts that are drawn: Normal and Uniform.
  /// A safetensors file, as Hugging Face's, of all parameters by their names here, to start from, whatever the module
  /// and `start` say. Empty: none. Buffers that it has are set as well.
  std::filesystem::path weights{};
  /// What weight files may have beside: names of tensors, as UnitPolicy has them, say "h.*.attn.bias".
  std::vector<UnitPolicy> weights_left_out{};
  /// Buffers that checkpoints leave out and evaluations do not broadcast: register_buffer(persistent=False) of Python.
  std::vector<UnitPolicy> buffers_not_saved{};
  /// The state of libtorch's generator of each rank is in checkpoints: 5 KiB for each that differs.
  bool generators_saved = true;
};

/// Trains a module as a stage file says. The module stays what it is; its parameters' memory is the engine's, valid
/// inside passes. Belongs to the thread that made it, as does the module: there a pass is begun, the module called and
/// the pass ended. The module outlives it, and has no parameters to read afterwards.
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
  /// Takes over `root`'s parameters as they are: their values, which must be the same on all ranks, requires_grad, and
  /// tensors that are registered in several places, which are tied. On each rank the whole module is there until then.
  /// Collective; waits. Throws ContractError for a module without units, on another device than the CPU, or with
  /// parameters that are not Float, BFloat16 or Half; and as AnyEngine's does.
  Trainer(Job& job, Config const& config, ::torch::nn::Module& root, TrainerOptions const& options = {})
      : registered_{root} {
    check_device(job);
    auto const chosen = choose(root, options);
    detail::Wishes const wishes{options.name, options.parameter, options.start, options.seed, !options.weights.empty()};
    auto described = detail::collect(root, chosen, wishes);
    ZEROTH_EXPECTS(!described.parameters.empty(), "a Trainer of a module without parameters");
    detail::arrange(described);
    auto const again = to_run_again(described.units, options.recompute);
    if (job.world() > 1) {
      collectives_.emplace(job, "torch");
    }
    auto* const among = collectives_ ? &*collectives_ : nullptr;
    buffers_.emplace(root, options.buffers_not_saved, among);
    if (options.generators_saved) {
      generators_.emplace(job, among);
    }
    weight_files_.emplace(root, options.name, options.weights_left_out);
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
    ++detail::trainers();
  }
  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;
  ~Trainer() { --detail::trainers(); }

  /// The file's gradient_accumulation_steps of them. Then comes step(). Accumulating over all but the last one is what
  /// DDP's and FSDP's no_sync does; zeroth.reduce_gradients says when ranks communicate.
  /// Throws ContractError if the module has got other parameters since the Trainer was made.
  [[nodiscard]] MicroSteps micro_steps() {
    registered_.check();
    return {runtime_.get(), engine_->micro_steps()};
  }
  /// As AnyEngine::step().
  std::optional<StepReport> step(StepOptions const& options = {}) { return engine_->step(options); }
  /// As AnyEngine::finish().
  std::optional<StepReport> finish() { return engine_->finish(); }
  /// As AnyEngine::evaluation(). Rank 0's buffers become all ranks' before, as DDP's do before each forward.
  [[nodiscard]] Evaluation evaluation(int passes) {
    buffers_->broadcast();
    return {*runtime_, engine_->evaluation(passes)};
  }
  [[nodiscard]] std::int64_t micro_batch() const noexcept { return engine_->micro_batch(); }  ///< Samples of a pass.
  /// What the stage file's dtype of compute is in libtorch: inputs of other types are the program's to convert.
  [[nodiscard]] at::ScalarType scalar_type() const noexcept { return detail::scalar_type(engine_->compute_dtype()); }
  /// For all else: metrics, monitors, reports, traces.
  [[nodiscard]] AnyEngine& engine() noexcept { return *engine_; }

  /// As AnyEngine::save(), with rank 0's buffers and every rank's generator. Throws ContractError, before anything is
  /// saved, if those and the program's state are more than 1 MiB.
  Saving save(std::filesystem::path const& folder, SaveOptions const& options = {}) {
    auto const state = buffers_->pack(options.program_state, generators_ ? &*generators_ : nullptr);
    auto with_buffers = options;
    with_buffers.program_state = state;
    return engine_->save(folder, with_buffers);
  }
  /// As AnyEngine::claim().
  void claim(std::filesystem::path const& folder) { engine_->claim(folder); }
  /// As AnyEngine::restore(), with the buffers, and with this rank's generator if as many ranks saved it; otherwise
  /// rank 0 logs that it has none. Throws ContractError if buffers are others than the module's: parameters are
  /// restored then, and no buffer is.
  Restored restore(std::filesystem::path const& path, RestoreOptions const& options = {}) {
    auto restored = engine_->restore(path, options);
    unpack(restored);
    return restored;
  }
  /// As AnyEngine::restore_latest(), likewise.
  std::optional<Restored> restore_latest(std::filesystem::path const& folder, RestoreOptions const& options = {}) {
    auto restored = engine_->restore_latest(folder, options);
    if (restored) {
      unpack(*restored);
    }
    return restored;
  }
  /// As AnyEngine::save_weights(): parameters by name. Buffers are not in it.
  void save_weights(std::filesystem::path const& file) { engine_->save_weights(file); }
  /// As AnyEngine::load_weights(): a file of all parameters by name, of buffers, which are set, and of what
  /// TrainerOptions::weights_left_out picks.
  void load_weights(std::filesystem::path const& file) {
    engine_->load_weights(file, [this](std::string const& name) { return weight_files_->may_have(name); });
    weight_files_->set_buffers(file);
  }

  /// All elements of a parameter as the optimizer holds it, in Float, on all ranks: one of summon_full_params. As
  /// AnyEngine::read(). Throws ContractError for a name that is no parameter's.
  [[nodiscard]] at::Tensor read(std::string const& name) {
    auto const& parameter = find(name, "read()");
    auto values = at::empty(parameter.tensor.sizes(), at::kFloat);
    engine_->read(*parameter.id, {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    return values;
  }
  /// Sets them: of the same shape, and the same on all ranks. As AnyEngine::write().
  void write(std::string const& name, at::Tensor const& values) {
    auto const& parameter = find(name, "write()");
    ZEROTH_EXPECTS(
        values.sizes() == parameter.tensor.sizes(),
        "write() of \"" + name + "\": " +
            c10::str("the values have shape ", values.sizes(), ", the parameter has ", parameter.tensor.sizes()));
    auto const row = values.detach().to(at::kCPU, at::kFloat).contiguous();
    engine_->write(*parameter.id, {row.data_ptr<float>(), static_cast<std::size_t>(row.numel())});
  }
  /// As AnyEngine::gradient_norm(): of all parameters.
  [[nodiscard]] float gradient_norm() { return engine_->gradient_norm(); }
  /// Of one that is trained, by name.
  [[nodiscard]] float gradient_norm(std::string const& name) {
    return engine_->gradient_norm(*find(name, "gradient_norm()").id);
  }

 private:
  static void check_device(Job& job) {
    auto const device = job.make_device()->name();
    ZEROTH_EXPECTS(device == "cpu",
                   "a torch Trainer of a job on " + device +
                       ": this adapter has run on CPUs alone, and refuses other devices until a GPU has "
                       "tried it; launch with DeviceKind::cpu");
  }
  static std::vector<ChosenUnit> choose(::torch::nn::Module const& root, TrainerOptions const& options) {
    if (options.units) {
      return *options.units;
    }
    auto marked = detail::submodules(root);
    std::erase_if(marked,
                  [](auto const& unit) { return dynamic_cast<detail::Marked const*>(unit.module.get()) == nullptr; });
    ZEROTH_EXPECTS(
        !marked.empty(),
        "a Trainer of a module without units, which would be gathered as a whole: declare holders by "
        "ZEROTH_TORCH_UNIT in place of TORCH_MODULE, or give TrainerOptions::units, as units(root, {\"layers.*\"}) "
        "makes them; units(root, {}) is the whole on purpose");
    return detail::outer_first(marked);
  }
  /// The units that `policies` pick.
  static std::vector<std::size_t> to_run_again(std::vector<detail::Unit> const& units,
                                               std::vector<UnitPolicy> const& policies) {
    std::vector<std::size_t> picked;
    for (auto const& policy : policies) {
      auto const before = picked.size();
      for (std::size_t u = 0; u < units.size(); ++u) {
        if (units[u].module != nullptr && policy(units[u].name, *units[u].module)) {
          detail::check_holder(units[u]);
          picked.push_back(u);
        }
      }
      ZEROTH_EXPECTS(picked.size() > before, "TrainerOptions::recompute: " + policy.what() + " picks no unit");
    }
    return picked;
  }
  void unpack(Restored& restored) {
    auto const saved = buffers_->unpack(restored.program_state);
    if (generators_) {
      generators_->restore_from(saved);
    }
  }
  [[nodiscard]] detail::Parameter const& find(std::string const& name, char const* call) const {
    auto const& all = runtime_->parameters();
    auto const found = std::ranges::find(all, name, &detail::Parameter::name);
    ZEROTH_EXPECTS(found != all.end(), std::string{call} + " of \"" + name + "\", which is no parameter of the module");
    return *found;
  }

  detail::Registered registered_;
  std::optional<Collectives> collectives_;  // where there are several ranks
  std::optional<detail::Buffers> buffers_;
  std::optional<detail::Generators> generators_;
  std::optional<detail::WeightFiles> weight_files_;
  std::optional<AnyEngine> engine_;
  std::unique_ptr<detail::Runtime> runtime_;  // ends first: it closes what the engine lent
};

}  // namespace zeroth::torch_adapter
