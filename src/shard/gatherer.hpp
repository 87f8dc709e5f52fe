// SPDX-License-Identifier: Apache-2.0
/// Gathers parameters for a use. Each method of transfer is a class.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "shard/carrier.hpp"
#include "shard/memory.hpp"

namespace zeroth::shard {

/// Gathers whole parameters from the pieces that ranks hold, on the gather stream.
class Gatherer {
 public:
  virtual ~Gatherer() = default;
  Gatherer(Gatherer const&) = delete;
  Gatherer& operator=(Gatherer const&) = delete;
  /// Gathers `flat`, which is sharded, into `whole`: [padded_count] of the compute dtype. One transaction per hop.
  void gather(FlatId flat, std::string_view purpose, std::byte* whole);
  /// Bytes moved so far, over all ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return carrier_.moved(); }

 protected:
  explicit Gatherer(Memory& memory);
  /// The trip of a part along its route, from this rank's elements at `held` to the whole part at `whole`. Also
  /// enqueues work that `held` needs before.
  [[nodiscard]] virtual Trip trip(Route const& route, Elements const& held, Elements const& whole) = 0;
  /// Converts what all trips have brought to its final form, if it is not in that form yet.
  virtual void take_over(FlatId flat, std::byte* whole) = 0;
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }

 private:
  Memory* memory_;
  Carrier carrier_;
  std::vector<Trip> trips_;
};

/// The gatherer of the plan: the parameters travel, those that are trained encoded by Settings::gather_codec.
[[nodiscard]] std::unique_ptr<Gatherer> make_gatherer(Memory& memory);

}  // namespace zeroth::shard
