// SPDX-License-Identifier: Apache-2.0
/// The part of 1-bit Adam's step in which ranks exchange first moments.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "shard/carrier.hpp"
#include "shard/memory.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::shard {

/// After the freeze of 1-bit Adam: every rank adds its own gradients to the first moments, which all ranks have,
/// encodes the result as signs, and sends each rank its slice of it. Each rank sums up its slice, encodes that as well,
/// and sends it to all (Tang et al. 2021, algorithm 1). What both encodings lose is kept and added in the next step.
/// Only for optimizers that encode momenta, which have all states on every rank.
class EncodedMomenta {
 public:
  explicit EncodedMomenta(Memory& memory);

  /// Bytes that a plan reserves.
  [[nodiscard]] static std::int64_t scratch_bytes(Layout const& layout) noexcept;

  /// Enqueues it for `flat`, whose own gradients are complete, and sets the new first moments as the gradient of the
  /// update `args`. They are valid until the next call. The first moments themselves are not changed. Collective.
  void exchange(FlatId flat, optim::UpdateArgs& args);
  /// Bytes passed to collectives so far, over all ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return carrier_.moved(); }

 private:
  [[nodiscard]] device::Encode encoding_of_rank(FlatId flat) const;

  Memory* memory_;
  Carrier carrier_;
  optim::OneBitAdam const* rule_;
  int ranks_;
  float *moments_, *slice_;      // of the largest flat unit
  std::byte *sent_, *received_;  // the same, encoded
  std::unique_ptr<device::Event> encoded_, arrived_;
};

}  // namespace zeroth::shard
