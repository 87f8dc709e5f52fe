// SPDX-License-Identifier: Apache-2.0
/// How gradients are reduced: a way is a class of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shard/carrier.hpp"
#include "shard/memory.hpp"

namespace zeroth::shard {

/// Complete gradients of a flat unit, the whole.
struct Unreduced {
  FlatId flat{};
  std::byte* data = nullptr;
  Dtype dtype = Dtype::fp32;
};

/// Sums gradients over ranks, on the reduce stream, into what the optimizer reads (Memory::Addresses::reduced).
class Reducer {
 public:
  virtual ~Reducer() = default;
  Reducer(Reducer const&) = delete;
  Reducer& operator=(Reducer const&) = delete;
  /// Reduces `gradients` in one transaction a hop, and adds the sums to those of this step so far. With `last` they are
  /// complete: leaves the block sums of their squares, and all that the optimizer of this rank holds. What the
  /// gradients are in may be overwritten.
  void reduce(std::span<Unreduced const> gradients, bool last);
  /// Bytes that a plan has for conversion of what is reduced together to the dtype that travels; 0 where it travels as
  /// it is.
  [[nodiscard]] static std::int64_t scratch_bytes(PlanRequest const& request) noexcept;
  /// What all ranks have moved so far.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return carrier_.moved(); }

 protected:
  explicit Reducer(Memory& memory);
  /// How `gradient`, which is in the dtype that travels, goes along the route `sum`.
  [[nodiscard]] virtual Trip trip(Unreduced const& gradient) const = 0;
  /// After that trip: brings what it left into what the optimizer reads, where it is not there yet; where it is
  /// complete then leaves the block sums.
  virtual void take_over(Unreduced const& gradient, bool complete) = 0;

  [[nodiscard]] bool summed_before(FlatId flat) const noexcept { return summed_before_[flat] != 0; }
  /// What the optimizer of this rank reads.
  [[nodiscard]] Elements read_by_optimizer(FlatId flat) const noexcept;
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }

 private:
  void sum(std::span<Unreduced const> gradients, bool last);
  [[nodiscard]] bool is_partial(FlatId flat) const noexcept;
  void sum_over_tensor(std::span<Unreduced const> gradients);
  void share(std::span<Unreduced const> gradients);

  Memory* memory_;
  Carrier carrier_;
  std::vector<Trip> trips_;
  std::vector<comm::Collective> over_tensor_;
  std::vector<Unreduced> converted_;
  ById<FlatId, char> summed_before_;  // in this step
};

/// That of the plan: sums where they are, by as many hops as the route has, or folds micro-steps into the sums.
[[nodiscard]] std::unique_ptr<Reducer> make_reducer(Memory& memory);

}  // namespace zeroth::shard
