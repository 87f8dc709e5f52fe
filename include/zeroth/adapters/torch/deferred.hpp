// SPDX-License-Identifier: Apache-2.0
/// Modules whose parameters have no memory until a Trainer has sharded them: each unit's are freed as soon as the unit
/// is constructed, and made again, unit by unit, when the engine asks for initial values.
#pragma once
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/generators.hpp"
#include "zeroth/adapters/torch/heap.hpp"
#include "zeroth/adapters/torch/launch.hpp"
#include "zeroth/adapters/torch/storage.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter {

namespace detail {

/// Whether deferred_init() runs on this thread.
[[nodiscard]] inline bool& defers() noexcept {
  thread_local bool is_running = false;
  return is_running;
}
/// Exists while modules are made without memory.
class Deferring {
 public:
  Deferring() noexcept : before_{std::exchange(defers(), true)} {}
  Deferring(Deferring const&) = delete;
  Deferring& operator=(Deferring const&) = delete;
  ~Deferring() { defers() = before_; }

 private:
  bool before_;
};

/// Makes the values of one module's parameters again. The allocator of their storages, by which they are found; it
/// allocates nothing.
class Remaker final : public c10::Allocator {
 public:
  /// `make` makes the module, as it was made with the generator in state `before`.
  Remaker(std::function<std::shared_ptr<::torch::nn::Module>()> make, at::Tensor before)
      : make_{std::move(make)}, before_{std::move(before)} {}
  c10::DataPtr allocate(std::size_t /*bytes*/) override {
    throw ContractError{"libtorch asks for memory of a parameter that deferred_init() made without"};
  }
  void copy_data(void* to, void const* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  /// All parameters of the module, in order of registration. Those of units inside it have no memory.
  [[nodiscard]] std::vector<at::Tensor> make_again() const {
    std::lock_guard const lock{generator_turns()};
    Deferring const deferring;
    auto const now = random_state();
    set_random_state(before_);
    auto const module = make_();
    set_random_state(now);
    return module->parameters();
  }

 private:
  std::function<std::shared_ptr<::torch::nn::Module>()> make_;
  at::Tensor before_;
};

/// The Remaker of a tensor without memory, or null for any other tensor.
[[nodiscard]] inline Remaker const* remaker_of(at::Tensor const& tensor) noexcept {
  return tensor.has_storage() ? dynamic_cast<Remaker const*>(tensor.storage().allocator()) : nullptr;
}

/// The values of deferred parameters, of one unit at a time.
class RemadeValues {
 public:
  /// All elements of `parameter`, which has no memory, in row-major order. The result is valid until the next call.
  [[nodiscard]] at::Tensor const& of(at::Tensor const& parameter) {
    auto const* const remaker = remaker_of(parameter);
    if (remaker != of_) {
      of_ = nullptr;
      values_.clear();
      values_ = remaker->make_again();
      of_ = remaker;
    }
    auto const index = static_cast<LentStorage*>(parameter.storage().unsafeGetStorageImpl())->index();
    ZEROTH_EXPECTS(
        index < values_.size() && values_[index].sizes() == parameter.sizes() && remaker_of(values_[index]) == nullptr,
        "a unit of deferred_init() was made again, with other parameters than the first time: its "
        "constructor must depend on its arguments and libtorch's generator alone");
    values_[index] = values_[index].detach().contiguous();
    return values_[index];
  }

 private:
  Remaker const* of_ = nullptr;
  std::vector<at::Tensor> values_;
};

/// Frees the memory of all parameters that `module` owns. `make` makes it again from the generator's state `before`.
inline void free_parameters(::torch::nn::Module const& module,
                            std::function<std::shared_ptr<::torch::nn::Module>()> make, at::Tensor const& before) {
  auto const remaker = std::make_shared<Remaker>(std::move(make), before);
  std::size_t index = 0;
  for (auto const& item : module.named_parameters()) {
    auto const place = index++;
    auto tensor = item.value();
    if (!tensor.has_storage() || !tensor.is_cpu() || remaker_of(tensor) != nullptr) {
      continue;  // a unit inside has freed it, or a Trainer will refuse it
    }
    auto const name = rank_prefix() + "parameter \"" + item.key() + "\" of a module that deferred_init() makes";
    ZEROTH_EXPECTS(
        tensor.storage().use_count() == 1,
        "parameter \"" + item.key() +
            "\" shares its memory with another tensor when its unit has been constructed, and deferred_init() cannot "
            "free it: make views in forward, and register the same tensor in all places instead of views of it");
    auto storage = c10::make_intrusive<LentStorage>(
        static_cast<std::int64_t>(tensor.nbytes()), remaker, place,
        name +
            " has no memory until a Trainer is made: what changes its initial values belongs into the constructor "
            "of its own unit, or into TrainerOptions::start");
    auto const sizes = tensor.sizes().vec();
    tensor.set_data(tensor_on(std::move(storage), sizes, tensor.scalar_type()));
  }
}

/// A module that a holder or a pointer holds.
template <class Module>
[[nodiscard]] std::shared_ptr<::torch::nn::Module> module_in(Module const& holder) {
  if constexpr (requires { holder.ptr(); }) {
    return holder.ptr();
  } else {
    return holder;
  }
}

/// How an argument of a constructor is kept, to be given again: as a copy, or by its address if it cannot be copied.
template <class T>
struct KeptArgument {
  static constexpr bool copies = std::is_copy_constructible_v<std::remove_cvref_t<T>>;
  static constexpr bool refers = !copies && std::is_lvalue_reference_v<T>;
  static constexpr bool possible = copies || refers;
  using Stored = std::conditional_t<refers, std::remove_reference_t<T>*, std::remove_cvref_t<T>>;
  template <class U>
  static Stored keep(U& argument) {
    if constexpr (refers) {
      return &argument;
    } else {
      return argument;
    }
  }
  /// Calls `f` with what the constructor was given.
  static decltype(auto) give(auto& stored) {
    if constexpr (refers) {
      return static_cast<T>(*stored);
    } else if constexpr (std::is_lvalue_reference_v<T>) {
      return static_cast<std::remove_reference_t<T>&>(stored);
    } else {
      return std::remove_cvref_t<T>{stored};  // the constructor may move from it
    }
  }
};

}  // namespace detail

/// Within deferred_init(), makes a module of which only the structure is kept: the memory of its parameters is freed at
/// once, and `make` is called again when a Trainer needs their values, so it must be repeatable: capture by value.
/// Anywhere else it only calls `make`. Holders of ZEROTH_TORCH_UNIT do this for their modules; call it for units that
/// have another holder, in the constructor of what contains them. `make` returns a holder or a shared_ptr. Not
/// collective.
template <class F>
[[nodiscard]] auto deferred(F make) {
  if (!detail::defers()) {
    return make();
  }
  auto const before = detail::random_state();
  auto module = make();
  detail::free_parameters(
      *detail::module_in(module), [make] { return detail::module_in(make()); }, before);
  return module;
}

/// Like seeded(), for modules larger than a rank's memory: torchdistX's deferred_init(). A unit's parameters lose their
/// memory as soon as the unit is constructed. The Trainer constructs each unit again, with its arguments and the state
/// that libtorch's generator had, and takes this rank's slices of the values. So values are those of seeded(), and no
/// rank ever holds more than its shards, one unit, and parameters in no unit.
///
/// Units are modules that holders of ZEROTH_TORCH_UNIT or deferred() make. Arguments of their constructors are kept as
/// copies, or by reference if they cannot be copied; those must exist until the Trainer does. A constructor may only
/// change parameters of its own unit: others have no memory any more, and libtorch's error says so. Buffers are kept.
/// With TrainerOptions::start or weights no values are made again. Not collective. Costs another construction of each
/// unit per place where its parameters are sharded separately.
template <class F>
[[nodiscard]] auto deferred_init(std::uint64_t seed, F const& make) {
  return seeded(seed, [&make] {
    detail::Deferring const deferring;
    return make();
  });
}

namespace detail {

/// Makes a module for a holder: within deferred_init() without memory for its parameters.
template <class Made, class... Args>
[[nodiscard]] std::shared_ptr<Made> make_unit(Args&&... args) {
  if (!defers()) {
    return std::make_shared<Made>(std::forward<Args>(args)...);
  }
  if constexpr ((KeptArgument<Args>::possible && ...)) {
    auto const kept =
        std::make_shared<std::tuple<typename KeptArgument<Args>::Stored...>>(KeptArgument<Args>::keep(args)...);
    return deferred([kept] {
      return [&]<std::size_t... at>(std::index_sequence<at...>) {
        return std::make_shared<Made>(KeptArgument<Args>::give(std::get<at>(*kept))...);
      }
      (std::index_sequence_for<Args...>{});
    });
  } else {
    throw ContractError{std::string{"deferred_init(): the constructor of "} + c10::demangle(typeid(Made).name()) +
                        " is given an object that can only be moved, and cannot be called again: pass it by reference"};
  }
}

}  // namespace detail

}  // namespace zeroth::torch_adapter
