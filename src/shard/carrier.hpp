// SPDX-License-Identifier: Apache-2.0
/// Runs routes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shard/memory.hpp"
#include "shard/moved_bytes.hpp"

namespace zeroth::shard {

/// Elements of a part in memory, of which the one at `first` is at `data`.
struct Elements {
  std::byte* data = nullptr;
  std::int64_t first = 0;
  Dtype dtype = Dtype::fp32;
  [[nodiscard]] std::byte* at(Range const& range) const noexcept {
    return data + (range.begin - first) * bytes_of(dtype);
  }
};

/// One part on its route: from where to where.
struct Trip {
  Route const* route;
  Elements from, to;
  /// Null, or where the first hop's sum goes in place of `to`; see Collective::sums.
  float* sums = nullptr;
  bool accumulate = false;
};

/// The one way in which states of flat units move among ranks. Counts what it moves.
class Carrier {
 public:
  explicit Carrier(Memory& memory);
  /// What transactions are called: by logs of calls, and in messages.
  struct Names {
    std::string_view what, purpose;
  };
  /// Enqueues `trips`, which have the same hops: a transaction for each. They are of `unit` or some that begin with it.
  void run(Names const& names, FlatId unit, std::span<Trip const> trips);
  /// Likewise one transaction over `axes`.
  void submit(Lane lane, Axes axes, Names const& names, FlatId unit, std::span<comm::Collective const> transaction);
  /// Likewise over the tensor ranks, on the reduce stream.
  void submit_over_tensor(Names const& names, FlatId unit, std::span<comm::Collective const> transaction);
  /// So far, of all their ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return moved_; }

 private:
  void submit(comm::Communicator& communicator, device::Stream& stream, bool across_groups, Names const& names,
              FlatId unit, std::span<comm::Collective const> transaction);

  Memory* memory_;
  std::vector<comm::Collective> transaction_;
  MovedBytes moved_;
};

}  // namespace zeroth::shard
