// SPDX-License-Identifier: Apache-2.0
/// The use of a module in a pass of another module's Trainer.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "zeroth/adapters/torch/runtime.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::torch_adapter::detail {

/// An evaluation pass of the engine whose module is used, open as long as the pass that uses it. Its guards may be
/// opened again in any order, so backward of the other engine reads through it as well.
class FrozenUse {
 public:
  /// `used` and `engine` belong to one Trainer. Collective.
  FrozenUse(Runtime& user, Runtime& used, AnyEngine& engine)
      : used_{&used}, evaluation_{(used.check_frozen_use(user), engine.evaluation(1))} {
    pass_.emplace(*evaluation_.begin().source);
    pass_->report_loss(0, {.weight = 0});  // every evaluation needs a loss; this one is not used
    used.begin_frozen(*pass_, user);
  }
  FrozenUse(FrozenUse const&) = delete;
  FrozenUse& operator=(FrozenUse const&) = delete;
  ~FrozenUse() {
    used_->end_frozen();
    pass_.reset();
    used_->drop();
  }

 private:
  Runtime* used_;
  AnyEvaluation evaluation_;
  std::optional<AnyEvaluationPass> pass_;
};

/// All modules that a pass uses besides its own.
using FrozenUses = std::vector<std::unique_ptr<FrozenUse>>;

}  // namespace zeroth::torch_adapter::detail
