// SPDX-License-Identifier: Apache-2.0
/// How parameters are gathered for a use: a way is a class of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "shard/carrier.hpp"
#include "shard/memory.hpp"

namespace zeroth::shard {

/// Makes whole parameters of what ranks hold of them, on the gather stream.
class Gatherer {
 public:
  virtual ~Gatherer() = default;
  Gatherer(Gatherer const&) = delete;
  Gatherer& operator=(Gatherer const&) = delete;
  /// Gathers `flat`, which is cut, into `whole`: [padded_count] of the compute dtype. One transaction a hop.
  void gather(FlatId flat, std::string_view purpose, std::byte* whole);
  /// Bytes that a plan has for what travels in place of parameters (Memory::gather_scratch()); 0 where they travel as
  /// they are.
  [[nodiscard]] static std::int64_t scratch_bytes(PlanRequest const& request) noexcept;
  /// What all ranks have moved so far.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return carrier_.moved(); }

 protected:
  explicit Gatherer(Memory& memory);
  /// How a part goes along its route: what this rank holds of it is at `held`, and all of it comes to `whole`. What
  /// must be done with `held` before is enqueued here.
  [[nodiscard]] virtual Trip trip(Route const& route, Elements const& held, Elements const& whole) = 0;
  /// Behind all trips: makes of what they brought what is used, where it is not that yet.
  virtual void take_over(FlatId flat, std::byte* whole) = 0;
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }

 private:
  Memory* memory_;
  Carrier carrier_;
  std::vector<Trip> trips_;
};

/// That of the plan: parameters travel as they are.
[[nodiscard]] std::unique_ptr<Gatherer> make_gatherer(Memory& memory);

}  // namespace zeroth::shard
