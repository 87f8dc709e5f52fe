// SPDX-License-Identifier: Apache-2.0
/// Reduces gradients. Each method is a class.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shard/addends.hpp"
#include "shard/carrier.hpp"
#include "shard/memory.hpp"

namespace zeroth::shard {

/// Complete, unsharded gradients of a flat unit.
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
  /// Reduces `gradients` in one transaction per hop, and adds the sums to those of this step so far. With `last` they
  /// are complete: computes the block sums of their squares, and provides all elements of this rank's optimizer. The
  /// memory of the gradients may be overwritten.
  void reduce(std::span<Unreduced const> gradients, bool last);
  /// With `frozen`, reduce() sums over no ranks: the optimizer reads this rank's own gradients, all of them.
  void set_frozen(bool frozen) noexcept { frozen_ = frozen; }
  /// Calls `action` before each reduction that changes errors.
  void set_before_errors(std::function<void()> action) { before_errors_ = std::move(action); }
  /// Bytes that a plan reserves to convert what is reduced in one transaction to the dtype that travels; 0 without a
  /// conversion.
  [[nodiscard]] static std::int64_t scratch_bytes(PlanRequest const& request) noexcept;
  /// Bytes moved so far, over all ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return carrier_.moved(); }
  /// This rank's addends of the sums over tensor ranks.
  [[nodiscard]] Addends& addends() noexcept { return addends_; }

 protected:
  explicit Reducer(Memory& memory);
  /// The trip of `gradient`, which is in the dtype that travels, along the route `sum`.
  [[nodiscard]] virtual Trip trip(Unreduced const& gradient) const = 0;
  /// Call after that trip: copies its result to what the optimizer reads, unless it is there already. If it is
  /// complete, computes the block sums.
  virtual void take_over(Unreduced const& gradient, bool complete) = 0;

  [[nodiscard]] bool summed_before(FlatId flat) const noexcept { return summed_before_[flat] != 0; }
  /// The elements that this rank's optimizer reads.
  [[nodiscard]] Elements read_by_optimizer(FlatId flat) const noexcept;
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }
  [[nodiscard]] Carrier& carrier() noexcept { return carrier_; }

 private:
  void sum(std::span<Unreduced const> gradients, bool last);
  [[nodiscard]] bool is_partial(FlatId flat) const noexcept;
  void sum_over_tensor(std::span<Unreduced const> gradients);
  void share(std::span<Unreduced const> gradients);
  void keep(Unreduced const& gradient, bool complete);

  Memory* memory_;
  Carrier carrier_;
  Addends addends_;
  std::vector<Trip> trips_;
  std::vector<comm::Collective> over_tensor_;
  std::vector<Unreduced> converted_;
  ById<FlatId, char> summed_before_;  // in this step
  std::function<void()> before_errors_;
  bool frozen_ = false;
};

/// The reducer of the plan: sums in place over all hops of the route, or folds micro-steps into the sums.
[[nodiscard]] std::unique_ptr<Reducer> make_reducer(Memory& memory);

}  // namespace zeroth::shard
