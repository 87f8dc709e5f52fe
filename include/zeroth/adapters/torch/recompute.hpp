// SPDX-License-Identifier: Apache-2.0
/// A unit that keeps its inputs instead of its activations, and runs again in backward, like torch.utils.checkpoint in
/// Python.
#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "zeroth/adapters/torch/generators.hpp"
#include "zeroth/adapters/torch/heap.hpp"
#include "zeroth/adapters/torch/runtime.hpp"
#include "zeroth/adapters/torch/tensors.hpp"

namespace zeroth::torch_adapter::detail {

using TensorList = std::vector<at::Tensor>;

/// A call that can be made again.
struct Call final : ::torch::CustomClassHolder {
  ::torch::nn::Module* module = nullptr;
  std::function<TensorList(TensorList const&)> run;
  at::Tensor state_before{};  ///< The generator's state before the call; undefined if the call drew nothing.

  /// The first run, without autograd.
  TensorList first(TensorList const& inputs) {
    auto const before = random_state();
    auto outputs = run(inputs);
    if (!at::equal(before, random_state())) {
      ZEROTH_EXPECTS(training_threads() == 1,
                     "a unit that is run again in backward draws random numbers, as dropout does, or another rank did "
                     "meanwhile: ranks that are threads share libtorch's generator, and it cannot be set back for one "
                     "of them; start ranks as processes, with mpirun or torchrun");
      state_before = before;
    }
    return outputs;
  }
  /// The second run, with the generator as it was before the first. Restores the module's buffers and the generator
  /// afterwards.
  TensorList again(TensorList const& inputs) const {
    std::vector<std::pair<at::Tensor, at::Tensor>> buffers;
    {
      at::NoGradGuard const no_grad;
      for (auto const& buffer : module->buffers()) {
        buffers.emplace_back(buffer, buffer.clone());
      }
    }
    auto const now = state_before.defined() ? random_state() : at::Tensor{};
    if (state_before.defined()) {
      set_random_state(state_before);
    }
    auto outputs = run(inputs);
    if (state_before.defined()) {
      set_random_state(now);
    }
    at::NoGradGuard const no_grad;
    for (auto& [buffer, value] : buffers) {
      buffer.copy_(value);
    }
    return outputs;
  }
};

/// The node that represents a call in autograd's graph.
struct RunAgain : ::torch::autograd::Function<RunAgain> {
  /// `more` requires a gradient, so that the module's parameters get theirs even if no input requires one.
  static TensorList forward(::torch::autograd::AutogradContext* context, at::TensorList inputs,
                            at::Tensor const& /*more*/, c10::intrusive_ptr<Call> const& call) {
    auto const list = inputs.vec();
    context->save_for_backward(list);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return call->first(list);
  }
  static TensorList backward(::torch::autograd::AutogradContext* context, TensorList const& gradients) {
    auto const holder = context->saved_data["call"].toCapsule();
    auto const& call = static_cast<Call const&>(*holder);
    auto* const runtime = Runtime::active();
    ZEROTH_EXPECTS(runtime != nullptr, "backward of a unit that is run again, outside of its micro-step");
    TensorList inputs;
    for (auto const& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach().requires_grad_(saved.requires_grad()));
    }
    runtime->begin_again(call.module);
    {
      at::AutoGradMode const with_grad{true};
      auto const outputs = call.again(inputs);
      runtime->end_again();
      TensorList roots, seeds;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].requires_grad() && gradients[i].defined()) {
          roots.push_back(outputs[i]);
          seeds.push_back(gradients[i]);
        }
      }
      ::torch::autograd::backward(roots, seeds);
    }
    TensorList result;
    for (auto const& input : inputs) {
      result.push_back(input.grad());
    }
    result.resize(inputs.size() + 2);
    return result;
  }
};

/// Calls `module.forward(arguments...)` without keeping its activations.
template <class Impl, class... Args>
auto call_to_run_again(std::shared_ptr<Impl> const& module, Args const&... arguments) {
  using Result = std::decay_t<decltype(module->forward(std::declval<Args&>()...))>;
  using Arguments = std::tuple<Args...>;
  Arguments given{arguments...};
  if constexpr (!Tensors<Arguments>::known || !Tensors<Result>::known) {
    throw ContractError{
        "a unit is to be run again in backward, but its input or output has a type whose tensors are unknown: give "
        "that type a member `template <class F> void each_tensor(F const& f)`, which calls f for each; module: " +
        module->name()};
    return module->forward(arguments...);
  } else {
    TensorList inputs;
    Tensors<Arguments>::each(given, [&](at::Tensor& tensor) { inputs.push_back(std::exchange(tensor, {})); });
    auto const fill = [](auto& structure, TensorList const& tensors) {
      std::size_t next = 0;
      Tensors<std::remove_reference_t<decltype(structure)>>::each(
          structure, [&](at::Tensor& tensor) { tensor = tensors[next++]; });
    };
    std::optional<Result> result;
    auto const call = c10::make_intrusive<Call>();
    call->module = module.get();
    call->run = [module, given, fill, kept = &result](TensorList const& tensors) mutable {
      auto these = given;
      fill(these, tensors);
      auto output = std::apply([&](auto&... each) { return module->forward(each...); }, these);
      TensorList outputs;
      Tensors<Result>::each(output, [&](at::Tensor& tensor) { outputs.push_back(tensor); });
      if (kept != nullptr) {
        *std::exchange(kept, nullptr) = std::move(output);
      }
      return outputs;
    };
    auto const outputs = RunAgain::apply(at::TensorList{inputs}, at::empty({0}).requires_grad_(true), call);
    fill(*result, outputs);
    return std::move(*result);
  }
}

/// Exists while a holder runs forward.
class CallScope {
 public:
  CallScope(Runtime& runtime, ::torch::nn::Module const* module) : runtime_{runtime}, module_{module} {
    runtime_.called(module_, 1);
  }
  CallScope(CallScope const&) = delete;
  CallScope& operator=(CallScope const&) = delete;
  ~CallScope() { runtime_.called(module_, -1); }

 private:
  Runtime& runtime_;
  ::torch::nn::Module const* module_;
};

/// Whether there are gradients that require a second run.
template <class... Args>
[[nodiscard]] bool leads_to_gradients(::torch::nn::Module const& module, Args const&... arguments) {
  if (!at::GradMode::is_enabled()) {
    return false;
  }
  bool found =
      std::ranges::any_of(module.parameters(), [](auto const& parameter) { return parameter.requires_grad(); });
  std::tuple<Args...> given{arguments...};
  if constexpr (Tensors<decltype(given)>::known) {
    Tensors<decltype(given)>::each(
        given, [&](at::Tensor const& tensor) { found |= tensor.defined() && tensor.requires_grad(); });
  }
  return found;
}

}  // namespace zeroth::torch_adapter::detail
