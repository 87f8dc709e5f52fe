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
  /// Of memory that a plan has for it: to convert what is reduced together to the dtype that travels. 0: it travels as
  /// it is.
  [[nodiscard]] static std::int64_t scratch_bytes(PlanRequest const& request) noexcept;
  /// Of all ranks, so far.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return carrier_.moved(); }

 protected:
  explicit Reducer(Memory& memory);
  /// Sums them over ranks into what the optimizer reads. They are in the dtype that travels.
  virtual void sum(std::span<Unreduced const> gradients, bool last) = 0;

  /// Adds what the route `sum` left of `gradient`, which it summed in place, to what the optimizer reads; with `last`
  /// leaves its block sums.
  void take_over(Unreduced const& gradient, bool last);
  [[nodiscard]] bool summed_before(FlatId flat) const noexcept { return summed_before_[flat] != 0; }
  /// What the optimizer of this rank reads.
  [[nodiscard]] Elements read_by_optimizer(FlatId flat) const noexcept;
  /// Runs trips(), which begin with the first of `gradients`.
  void run(Carrier::Names const& names, std::span<Unreduced const> gradients);
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }
  [[nodiscard]] std::vector<Trip>& trips() noexcept { return trips_; }

 private:
  void share(std::span<Unreduced const> gradients);

  Memory* memory_;
  Carrier carrier_;
  std::vector<Trip> trips_;
  std::vector<Unreduced> converted_;
  ById<FlatId, char> summed_before_;  // in this step
};

/// That of the plan: sums where they are, by as many hops as the route has, or folds micro-steps into the sums.
[[nodiscard]] std::unique_ptr<Reducer> make_reducer(Memory& memory);

}  // namespace zeroth::shard
