// SPDX-License-Identifier: Apache-2.0
/// A libtorch module as units and parameters of a Model.
#pragma once
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/deferred.hpp"
#include "zeroth/adapters/torch/device.hpp"
#include "zeroth/adapters/torch/ignored.hpp"
#include "zeroth/adapters/torch/matrices.hpp"
#include "zeroth/adapters/torch/storage.hpp"
#include "zeroth/adapters/torch/units.hpp"
#include "zeroth/engine/guards.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::torch_adapter::detail {

/// A tensor of the module, with all places where it is registered.
struct Parameter {
  std::string name;                ///< Its first name, or what TrainerOptions::name makes of it.
  at::Tensor tensor;               ///< The module's own tensor.
  std::vector<std::size_t> units;  ///< Units that use it, in order. The first one owns it.
  std::optional<AnyParam> id{};
  c10::intrusive_ptr<LentStorage> storage{};  ///< The storage of `tensor`, until the program calls set_data().
  int open = 0;                               ///< Number of open guards that lend it memory.
  at::Tensor refused_gradient{};              ///< The value of .grad between backward passes; reading it throws.
  bool matrix = false;                        ///< Whether a MatrixRule selects it.
  bool trainable = false;                     ///< Whether the engine trains it.
  bool fp32 = false;                          ///< Whether it is Float whatever the compute dtype is.
  std::int64_t version = 0;                   ///< version_of(tensor) when the engine took it.
};

/// The number of operations that have written to `tensor`. Writes through Tensor::data() are not counted.
[[nodiscard]] inline std::int64_t version_of(at::Tensor const& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

/// A submodule, or the parameters of the root that are in no other unit.
struct Unit {
  std::string name;             ///< Its name in named_modules(); empty for the root.
  ::torch::nn::Module* module;  ///< Null for the root, which no holder calls.
  std::optional<zeroth::Unit> id{};
  std::vector<std::size_t> parameters{};  ///< Indices of the module's parameters that it owns or ties.
  std::vector<std::size_t> around{};      ///< Units that contain it, outermost first.
  bool outer = false;                     ///< Whether it contains other units.
  bool resharded = true;                  ///< UnitOptions::reshard_after_forward.
  std::optional<AnyForward> forward{};    ///< Set while it is open in forward.
  std::optional<AnyBackward> backward{};  ///< Set while it is open in backward.
  int backward_turns = 0;                 ///< Its backward visits in this micro-step.
  bool used = false;                      ///< Whether forward used it in this micro-step.
  int forward_pins = 0;                   ///< Number of Unsharded objects that keep `forward` open.
  int backward_pins = 0;                  ///< Number of Unsharded objects that keep `backward` open.
  [[nodiscard]] std::string label() const { return name.empty() ? "root" : name; }
  [[nodiscard]] bool is_open() const noexcept { return forward || backward; }
  /// Whether it is open because operations read it, not only because the program keeps forward's guard.
  [[nodiscard]] bool is_in_use() const noexcept { return backward || (forward && forward_pins == 0); }
};

/// How the program wants parameters to be trained, and how they are named.
struct Wishes {
  std::function<std::string(std::string const&)> name;
  std::function<ParamOptions(std::string const&)> parameter;
  MatrixRule matrix;  ///< Empty: that of hidden_matrices().
  std::function<std::optional<Init>(std::string const&)> start;
  std::uint64_t seed = 0;
  bool weights = false;                              ///< Whether a file provides all values.
  std::unordered_set<at::TensorImpl const*> fp32{};  ///< Parameters that stay Float.
};

/// All units and parameters.
struct Described {
  std::vector<Unit> units;
  std::vector<Parameter> parameters;
};

inline void check_tensor(std::string const& name, at::Tensor const& tensor) {
  expect_on_cpu("parameter \"" + name + "\"", tensor.device());
  auto const type = tensor.scalar_type();
  ZEROTH_EXPECTS(tensor.layout() == at::kStrided && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf),
                 "parameter \"" + name + "\" is of type " + c10::toString(type) +
                     "; allowed are dense ones of Float, BFloat16 and Half");
}

/// A second Trainer would take the memory that the first one lends, and its hooks would replace the first one's.
inline void check_free(std::string const& name, at::Tensor const& tensor) {
  auto const* const owner = dynamic_cast<Owner const*>(tensor.storage().allocator());
  ZEROTH_EXPECTS(owner == nullptr || !owner->trains,
                 "parameter \"" + name + "\" has a Trainer already; a module has one at a time");
  namespace impl = ::torch::autograd::impl;
  ZEROTH_EXPECTS(
      impl::get_autograd_meta(tensor) == nullptr || impl::post_acc_grad_hooks(tensor) == nullptr,
      "parameter \"" + name +
          "\" has a post-accumulate hook, which the engine replaces: at that time the engine has the gradient, and "
          ".grad is empty. Use Tensor::register_hook(), whose hooks see gradients before that");
}

/// Different tensors that share memory would be trained separately, and tensors that are not parameters would keep
/// their initial values.
inline void check_aliases(std::vector<Parameter> const& parameters) {
  std::unordered_map<void const*, std::string> seen;
  for (auto const& parameter : parameters) {
    auto const& name = parameter.name;
    auto const [at, is_new] = seen.emplace(parameter.tensor.storage().unsafeGetStorageImpl(), name);
    ZEROTH_EXPECTS(is_new, "parameters \"" + at->second + "\" and \"" + name +
                               "\" share memory and are different tensors: register the same tensor in both places, "
                               "and it is tied");
  }
  for (auto const& parameter : parameters) {
    ZEROTH_EXPECTS(
        parameter.tensor.storage().use_count() == 1,
        "parameter \"" + parameter.name +
            "\" shares its memory with a tensor that is not a parameter and would keep the initial values: a view that "
            "was made before the Trainer, the result of a forward pass that still refers to it, or the tensor that the "
            "parameter is a view of. Make views in forward, release results, and register a clone() of a view");
  }
}

/// Sets Parameter::matrix of all parameters.
inline void mark_matrices(std::vector<Parameter>& parameters, ::torch::nn::Module const& root, Wishes const& wishes) {
  auto const hidden = hidden_matrices(root);
  auto const places = registrations(root);
  for (auto& parameter : parameters) {
    auto const& module = *places.at(parameter.tensor.unsafeGetTensorImpl()).module;
    parameter.matrix = (wishes.matrix ? wishes.matrix : hidden)(parameter.name, module, parameter.tensor);
  }
}

/// Collects the units and their parameters. The root comes first, then the units of `chosen` in their order.
[[nodiscard]] inline Described collect(::torch::nn::Module& root, std::vector<ChosenUnit> const& chosen,
                                       Wishes const& wishes, Ignored const& ignored) {
  Described described;
  described.units.push_back({"", nullptr});
  for (auto const& unit : chosen) {
    described.units.push_back({unit.name, unit.module.get()});
  }
  auto const home_of = [&](std::string const& name) {  // the innermost unit that contains this name
    std::size_t home = 0;
    for (std::size_t u = 1; u < described.units.size(); ++u) {
      auto const& unit = described.units[u].name;
      if (is_within(unit, name) && unit.size() > described.units[home].name.size()) {
        home = u;
      }
    }
    return home;
  };
  std::unordered_map<at::TensorImpl*, std::size_t> seen;
  for (auto const& item : root.named_parameters()) {
    auto const& tensor = item.value();
    if (ignored.has(tensor)) {
      continue;
    }
    auto const [at, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), described.parameters.size());
    if (is_new) {
      check_tensor(item.key(), tensor);
      check_free(item.key(), tensor);
      described.parameters.push_back({wishes.name ? wishes.name(item.key()) : item.key(), tensor, {}});
    }
    auto& users = described.parameters[at->second].units;
    if (auto const home = home_of(item.key()); std::ranges::find(users, home) == users.end()) {
      users.push_back(home);
    }
  }
  check_aliases(described.parameters);
  mark_matrices(described.parameters, root, wishes);
  return described;
}

/// Drops units without parameters. A parameter that an enclosing unit keeps open is not tied to the units inside.
inline void arrange(Described& described) {
  auto& units = described.units;
  for (std::size_t p = 0; p < described.parameters.size(); ++p) {
    auto& users = described.parameters[p].units;
    std::ranges::sort(users);
    std::erase_if(users, [&](std::size_t user) {
      return user != users.front() && is_within(units[users.front()].name, units[user].name);
    });
  }
  std::vector<std::size_t> place(units.size(), units.size());
  std::vector<Unit> kept;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t p = 0; p < described.parameters.size(); ++p) {
      if (std::ranges::find(described.parameters[p].units, u) != described.parameters[p].units.end()) {
        units[u].parameters.push_back(p);
      }
    }
    if (!units[u].parameters.empty()) {
      place[u] = kept.size();
      kept.push_back(std::move(units[u]));
    }
  }
  units = std::move(kept);
  for (auto& parameter : described.parameters) {
    std::ranges::for_each(parameter.units, [&](std::size_t& user) { user = place[user]; });
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t other = 0; other < u; ++other) {  // outer ones come first
      if (is_within(units[other].name, units[u].name)) {
        units[u].around.push_back(other);
        units[other].outer = true;
      }
    }
  }
}

/// The module's own values, unless the program chooses otherwise.
[[nodiscard]] inline Init start_of(Parameter const& parameter, Wishes const& wishes,
                                   std::shared_ptr<RemadeValues> const& remade) {
  if (wishes.weights) {
    return Constant{0};
  }
  if (auto init = wishes.start ? wishes.start(parameter.name) : std::nullopt) {
    return *init;
  }
  auto const copy = [](at::Tensor const& values, std::int64_t first, std::span<float> into) {
    at::NoGradGuard const no_grad;
    auto const count = static_cast<std::int64_t>(into.size());
    at::from_blob(into.data(), {count}, at::kFloat).copy_(values.view({-1}).narrow(0, first, count));
  };
  if (remaker_of(parameter.tensor) != nullptr) {
    return FromMemory{[copy, remade, tensor = parameter.tensor](std::int64_t first, std::span<float> into) {
      copy(remade->of(tensor), first, into);
    }};
  }
  return FromMemory{[copy, values = parameter.tensor.detach().contiguous()](std::int64_t first, std::span<float> into) {
    copy(values, first, into);
  }};
}

/// The engine's options for a parameter.
[[nodiscard]] inline ParamOptions options_of(Parameter const& parameter, Wishes const& wishes) {
  auto options = wishes.parameter ? wishes.parameter(parameter.name) : ParamOptions{};
  options.trainable = options.trainable && parameter.tensor.requires_grad();
  bool const may_be_marked = wishes.matrix || options.trainable;  // by default not what `parameter` freezes
  options.matrix = options.matrix || (parameter.matrix && may_be_marked);
  if (wishes.fp32.contains(parameter.tensor.unsafeGetTensorImpl())) {
    options.compute = Dtype::fp32;
  }
  return options;
}

/// Declares all of it as a Model. The Model holds the module's values until it is destroyed, or those of one unit if
/// deferred_init() made the module.
[[nodiscard]] inline Model declare(Described& described, Wishes const& wishes) {
  Model model{wishes.seed};
  auto const remade = std::make_shared<RemadeValues>();
  for (auto& unit : described.units) {
    unit.id = model.unit(unit.label(), {.stays_open = unit.outer, .reshard_after_forward = unit.resharded});
  }
  for (auto& parameter : described.parameters) {
    auto const options = options_of(parameter, wishes);
    parameter.trainable = options.trainable;
    parameter.fp32 = options.compute == Dtype::fp32;
    parameter.tensor.requires_grad_(parameter.trainable);
    auto const sizes = parameter.tensor.sizes();
    auto const& users = parameter.units;
    parameter.id = model.param(*described.units[users.front()].id, parameter.name,
                               std::span{sizes.data(), sizes.size()}, start_of(parameter, wishes, remade), options);
    for (std::size_t further = 1; further < users.size(); ++further) {
      model.tie(*described.units[users[further]].id, *parameter.id);
    }
  }
  return model;
}

/// Frees the memory of the module's tensors, and gives them storages that borrow the engine's memory, in the compute
/// dtype or in fp32.
inline void adopt(Described& described, std::shared_ptr<Owner> const& owner, Dtype compute) {
  for (std::size_t p = 0; p < described.parameters.size(); ++p) {
    auto& parameter = described.parameters[p];
    auto const sizes = parameter.tensor.sizes().vec();
    auto const dtype = parameter.fp32 ? Dtype::fp32 : compute;
    auto const type = scalar_type(dtype);
    auto const bytes = parameter.tensor.numel() * bytes_of(dtype);
    auto const& home = described.units[parameter.units.front()];
    auto const why_closed =
        rank_prefix() + "parameter \"" + parameter.name + "\" of unit \"" + home.label() +
        "\" was read outside of a micro-step or an evaluation pass, or by code that libtorch does not dispatch, but "
        "its memory belongs to its engine: call Trainer::read() for its values, or Trainer::save_weights() for a file "
        "of all. In a pass of another Trainer, call use_frozen() of that pass first. Code that reads data_ptr() calls "
        "unshard() before. The stage file's optimizer makes the updates: one of torch::optim has nothing to work on";
    auto storage = c10::make_intrusive<LentStorage>(bytes, owner, p, why_closed);
    parameter.storage = storage;
    parameter.tensor.set_data(tensor_on(std::move(storage), sizes, type));
    parameter.version = version_of(parameter.tensor);
    if (parameter.trainable) {
      parameter.refused_gradient =
          tensor_on(c10::make_intrusive<LentStorage>(
                        bytes, std::make_shared<Owner>(), p,
                        rank_prefix() + "the gradient of \"" + parameter.name +
                            "\" belongs to its engine, which reduces it over the ranks, and is not in .grad: a "
                            "torch::optim optimizer or clip_grad_norm_ has nothing to work on; use the stage file's "
                            "optimizer and gradient_clipping, and Trainer::gradient_norm() for the norm"),
                    sizes, type);
    }
  }
}

/// The parameters that a module had when its Trainer was made, in all places where they were registered.
class Registered {
 public:
  /// `root` must outlive it.
  explicit Registered(::torch::nn::Module const& root) : root_{&root}, tensors_{root.parameters()} {}
  /// Throws ContractError if the module's parameters have changed since. Compares one pointer per parameter.
  void check() const {
    auto const is_same = [](at::Tensor const& a, at::Tensor const& b) { return a.is_same(b); };
    if (std::ranges::equal(root_->parameters(), tensors_, is_same)) {
      return;
    }
    for (auto const& item : root_->named_parameters()) {
      ZEROTH_EXPECTS(std::ranges::any_of(tensors_, [&](auto const& tensor) { return tensor.is_same(item.value()); }),
                     "parameter \"" + item.key() +
                         "\" was registered after the Trainer was made, and would not be trained: register all "
                         "parameters and modules before, or make another Trainer");
    }
    throw ContractError{
        "parameters that the module had when its Trainer was made are no longer registered, or are in other places: "
        "leave the module as it was, or make another Trainer"};
  }

 private:
  ::torch::nn::Module const* root_;
  std::vector<at::Tensor> tensors_;
};

/// Throws ContractError if the program has changed a parameter without its engine: by set_data(), by an operation that
/// writes, or, if `trains`, by requires_grad_(). Compares a pointer, a number and a flag per parameter.
inline void check_unchanged(std::vector<Parameter> const& parameters, Owner const& owner, bool trains) {
  for (auto const& parameter : parameters) {
    auto const& name = parameter.name;
    auto const& tensor = parameter.tensor;
    ZEROTH_EXPECTS(lent_storage(tensor, owner) == parameter.storage.get(),
                   "parameter \"" + name +
                       "\" was given other memory, by set_data() or an assignment to data, after "
                       "its Trainer was made; Trainer::write() changes its values");
    ZEROTH_EXPECTS(version_of(tensor) == parameter.version,
                   "parameter \"" + name +
                       "\" was written to inside of a pass, where its memory is lent to be read; "
                       "call Trainer::write() between steps");
    ZEROTH_EXPECTS(!trains || tensor.requires_grad() == parameter.trainable,
                   "requires_grad of parameter \"" + name + "\" was set to " +
                       (parameter.trainable ? "false" : "true") +
                       " after its Trainer was made; set it before, or make another Trainer");
  }
}

}  // namespace zeroth::torch_adapter::detail
