// SPDX-License-Identifier: Apache-2.0
/// The choice of activations that a program keeps for backward.
#pragma once
#include <cstdint>
#include <vector>

#include "zeroth/config/config.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth {

/// The decisions of zeroth.activation_checkpointing for each unit of a model. The program carries them out, as
/// train_gpt does: engines neither hold nor recompute activations. Pure: a function of file and model, the same on all
/// ranks. Constant, so any threads may share it.
class ZEROTH_EXPORT ActivationPolicy {
 public:
  /// Every unit is kept.
  ActivationPolicy() = default;
  /// Reads the file's choice of units. Throws ConfigError for a name that is no unit of `model`, naming the nearest.
  ActivationPolicy(Config const& config, Model const& model);
  /// Whether forward keeps what backward of `unit` needs, so that backward does not run its forward again.
  [[nodiscard]] bool keeps(Unit unit) const { return !recomputes(unit); }
  /// Whether forward keeps only the input of `unit`, and backward runs its forward again. Throws ContractError for a
  /// unit of another model.
  [[nodiscard]] bool recomputes(Unit unit) const;
  /// Whether the kept input of `unit` waits for backward outside of the device's memory: the unit is recomputed, and
  /// the file asks for offload. Not the model's first unit, whose input is the batch, nor its last, whose backward
  /// follows at once.
  [[nodiscard]] bool offloads(Unit unit) const;
  /// Whether any unit is recomputed.
  [[nodiscard]] bool recomputes_any() const noexcept;
  /// Where those inputs wait.
  [[nodiscard]] ActivationOffload offload() const noexcept { return offload_; }

 private:
  ModelId model_{};
  std::vector<bool> recomputed_;  // by index
  ActivationOffload offload_ = ActivationOffload::none;
};

}  // namespace zeroth
