// SPDX-License-Identifier: Apache-2.0
/// The part of LAMB's step that needs norms of whole parameters.
#pragma once
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "shard/memory.hpp"

namespace zeroth::shard {

/// Whether a step needs them.
[[nodiscard]] inline bool has_trust_ratios(Settings const& settings) noexcept {
  return std::holds_alternative<optim::Lamb>(settings.update.rule);
}

/// Moves the moments of a step, and computes the trust ratio of every parameter: each rank sums squares in its
/// optimizer's elements, and ranks add up their sums exactly. So the bits do not depend on how states are sharded. Only
/// for optimizers that have trust ratios.
class ParameterNorms {
 public:
  explicit ParameterNorms(Memory& memory);

  /// Bytes that a plan reserves.
  [[nodiscard]] static std::int64_t scratch_bytes(Layout const& layout, PlanRequest const& request) noexcept;
  /// The trust ratios, by parameter, in `scratch`, which has scratch_bytes().
  [[nodiscard]] static float* ratios_in(std::byte* scratch, Layout const& layout) noexcept;

  /// Enqueues all of it, for all parameters. Call after the decision. Collective.
  void compute();
  /// The flat units that have elements to update.
  [[nodiscard]] std::vector<FlatId> flats() const;

 private:
  /// A flat unit's parts of parameters that this rank's optimizer has.
  struct OfFlat {
    FlatId flat;
    std::vector<optim::Segment> segments;
    std::vector<ParamId> params;  ///< The parameter of each segment.
    bool counts;                  ///< Whether this rank adds its sums, which other ranks may have too.
  };
  void add_up();

  Memory* memory_;
  device::NormSums* sums_;
  float *weight_squares_, *direction_squares_, *ratios_;
  std::vector<OfFlat> flats_;
  std::unique_ptr<device::Event> ready_, added_;
};

}  // namespace zeroth::shard
