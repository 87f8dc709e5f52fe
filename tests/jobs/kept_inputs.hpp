// SPDX-License-Identifier: Apache-2.0
/// Inputs that a drawn job keeps from forward to backward in an ActivationStore: bytes computed from unit and sample,
/// which backward checks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "jobs/built_model.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/engine/activation_store.hpp"
#include "zeroth/engine/activations.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::testing::jobs {

class KeptInputs {
 public:
  /// Null if the file has no activations on a disk.
  static std::unique_ptr<KeptInputs> of(AnyEngine& engine, BuiltModel const& built, Config const& config);
  KeptInputs(AnyEngine& engine, BuiltModel const& built, Config const& config);

  /// Call in forward of a unit. A second input replaces the first.
  void put(std::size_t unit, std::int64_t sample);
  /// Call in backward of a unit. Throws std::runtime_error if the bytes differ. Does nothing if there is no input.
  void take(std::size_t unit, std::int64_t sample);

 private:
  static constexpr std::int64_t most_bytes = 5000;
  [[nodiscard]] std::int64_t fill(std::size_t unit, std::int64_t sample, std::vector<std::byte>& bytes) const;

  BuiltModel const& built_;
  ActivationPolicy policy_;
  ActivationStore store_;
  std::vector<ActivationStore::Kept> kept_;  // by unit
  std::vector<std::byte> memory_, expected_;
};

}  // namespace zeroth::testing::jobs
