// SPDX-License-Identifier: Apache-2.0
/// Units that the program gathers by hand, for code that reads the addresses of parameters.
#pragma once
#include <torch/torch.h>

#include <string>
#include <utility>

#include "zeroth/adapters/torch/runtime.hpp"

namespace zeroth::torch_adapter {

/// Keeps a unit gathered until it is destroyed or the pass ends, whichever is first. Afterwards the unit closes as
/// usual, when libtorch reads another one. Destroy it on the thread of the pass, before the Trainer.
class [[nodiscard]] Unsharded {
 public:
  /// Keeps nothing.
  Unsharded() noexcept = default;
  /// Used by unshard(): opens the unit with this index. `call` begins the messages of errors.
  Unsharded(detail::Runtime& runtime, std::size_t unit, std::string const& call)
      : runtime_{&runtime}, pin_{runtime.pin(unit, call)} {}
  /// Takes over what `other` keeps, which then keeps nothing.
  Unsharded(Unsharded&& other) noexcept : runtime_{std::exchange(other.runtime_, nullptr)}, pin_{other.pin_} {}
  Unsharded& operator=(Unsharded&&) = delete;  // would open the next unit before it closes this one
  ~Unsharded() {
    if (runtime_ != nullptr) {
      runtime_->unpin(pin_);
    }
  }

 private:
  detail::Runtime* runtime_ = nullptr;
  detail::Runtime::Pin pin_{};
};

/// Gathers the unit that `parameter` belongs to, so that its data_ptr() is readable in forward and in backward: for
/// kernels that a torch::autograd::Function calls, which libtorch does not dispatch. Same as Trainer::unshard(), for
/// code that does not know the Trainer. Any other tensor is readable anyway, and nothing happens: the code also works
/// without a Trainer. Collective among the ranks that use the unit. Throws ContractError for a Trainer's parameter
/// outside of a pass that reads it.
[[nodiscard]] inline Unsharded unshard(at::Tensor const& parameter) {
  if (auto* const lender = detail::Runtime::lender_of(parameter)) {
    return {*lender, lender->unit_of(parameter), "unshard()"};
  }
  ZEROTH_EXPECTS(!parameter.defined() || !parameter.has_storage() ||
                     dynamic_cast<detail::Owner const*>(parameter.storage().allocator()) == nullptr,
                 "unshard() of a Trainer's parameter outside of a pass: units are gathered in micro-steps, in "
                 "evaluation passes, and in passes of another Trainer that call use_frozen()");
  return {};
}

}  // namespace zeroth::torch_adapter
