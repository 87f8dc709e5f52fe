// SPDX-License-Identifier: Apache-2.0
/// ZEROTH_TORCH_UNIT, which replaces TORCH_MODULE for a module that is a unit.
#pragma once
#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "zeroth/adapters/torch/deferred.hpp"
#include "zeroth/adapters/torch/recompute.hpp"
#include "zeroth/adapters/torch/units.hpp"

namespace zeroth::torch_adapter {

namespace detail {
/// The type that Trainers look for in a module.
template <class Impl>
class MarkedModule final : public Impl, public Marked {
 public:
  using Impl::Impl;
};
}  // namespace detail

/// A torch::nn::ModuleHolder whose modules are units of the Trainer that gets the root module. If that Trainer
/// recomputes the unit, calling the holder sets up its second run in backward. Without a Trainer it behaves like its
/// base. See ZEROTH_TORCH_UNIT.
template <class Impl>
class UnitHolder : public ::torch::nn::ModuleHolder<Impl> {
  using Base = ::torch::nn::ModuleHolder<Impl>;

 public:
  /// Makes the module without arguments.
  UnitHolder() : Base{std::shared_ptr<Impl>{detail::make_unit<detail::MarkedModule<Impl>>()}} {}
  /// Makes an empty holder.
  UnitHolder(std::nullptr_t) : Base{nullptr} {}  // NOLINT(google-explicit-constructor): as torch's
  /// Holds a module that such a holder made. Throws ContractError for any other module, which would not be a unit.
  UnitHolder(std::shared_ptr<Impl> module)  // NOLINT(google-explicit-constructor): as torch's
      : Base{std::move(module)} {
    ZEROTH_EXPECTS(this->is_empty() || dynamic_cast<detail::Marked const*>(this->get()) != nullptr,
                   "a holder made by ZEROTH_TORCH_UNIT was given a module that no such holder made, and that would not "
                   "be a unit: give the holder the arguments of the module's constructor");
  }
  /// Makes the module from these arguments. Within deferred_init() they are kept.
  template <class Head, class... Tail>
    requires(std::constructible_from<Impl, Head, Tail...> &&
             !(sizeof...(Tail) == 0 && std::derived_from<std::remove_cvref_t<Head>, Base>))
  explicit UnitHolder(Head&& head, Tail&&... tail)
      : Base{std::shared_ptr<Impl>{
            detail::make_unit<detail::MarkedModule<Impl>>(std::forward<Head>(head), std::forward<Tail>(tail)...)}} {}

  /// Calls forward().
  template <class... Args>
  auto operator()(Args&&... args) -> ::torch::detail::return_type_of_forward_t<Impl, Args...> {
    auto const& module = this->ptr();
    auto* const runtime = detail::Runtime::active();
    if (runtime == nullptr || !runtime->recomputes(module.get())) {
      return module->forward(std::forward<Args>(args)...);
    }
    detail::CallScope const scope{*runtime, module.get()};
    if (detail::leads_to_gradients<std::decay_t<Args>...>(*module, args...)) {
      return detail::call_to_run_again<Impl, std::decay_t<Args>...>(module, args...);
    }
    return module->forward(std::forward<Args>(args)...);
  }
};

}  // namespace zeroth::torch_adapter

/// Use it in place of TORCH_MODULE(Name): `Name` is a holder of `NameImpl`, and each module it makes is a unit. Without
/// a Trainer it is plain libtorch.
#define ZEROTH_TORCH_UNIT(Name)                                         \
  class Name : public ::zeroth::torch_adapter::UnitHolder<Name##Impl> { \
   public:                                                              \
    using ::zeroth::torch_adapter::UnitHolder<Name##Impl>::UnitHolder;  \
    using Impl [[maybe_unused]] = Name##Impl;                           \
  }
