// SPDX-License-Identifier: Apache-2.0
/// What a drawn job keeps of its units from forward to backward in an ActivationStore: bytes that follow from unit and
/// sample, which backward must find again.
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

  /// In forward of a unit. A second one replaces the first.
  void put(std::size_t unit, std::int64_t sample);
  /// In backward of a unit. Throws std::runtime_error if it has other bytes. Does nothing if it has none.
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
