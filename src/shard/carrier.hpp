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

/// Elements of a part in memory; element `first` is at `data`.
struct Elements {
  std::byte* data = nullptr;
  std::int64_t first = 0;
  Dtype dtype = Dtype::fp32;
  [[nodiscard]] std::byte* at(Range const& range) const noexcept {
    return data + (range.begin - first) * bytes_of(dtype);
  }
};

/// One part's transfer along its route.
struct Trip {
  Route const* route;
  Elements from, to;
  /// If not null, the first hop adds its sum here instead of writing `to`; see Collective::sums.
  float* sums = nullptr;
  bool accumulate = false;
  Codec codec = Codec::none;  ///< Codec of gathers; reductions use Settings::reduce_codec.
  float* errors = nullptr;    ///< Errors of encoding `from`; see Encode.
};

/// The only code that moves states of flat units between ranks. Counts the bytes that it moves.
class Carrier {
 public:
  explicit Carrier(Memory& memory);
  /// The names of transactions in logs and messages.
  struct Names {
    std::string_view what, purpose;
  };
  /// Enqueues `trips` as one transaction per hop. All have the same hops. They belong to `unit`, or to several flat
  /// units that begin with it.
  void run(Names const& names, FlatId unit, std::span<Trip const> trips);
  /// Bytes that a plan reserves for what a transaction of reductions sends and receives encoded; 0 without a codec.
  [[nodiscard]] static std::int64_t scratch_bytes(Layout const& layout, PlanRequest const& request) noexcept;
  /// Enqueues one transaction over `axes`.
  void submit(Lane lane, Axes axes, Names const& names, FlatId unit, std::span<comm::Collective const> transaction);
  /// Enqueues one transaction over the tensor ranks, on the reduce stream.
  void submit_over_tensor(Names const& names, FlatId unit, std::span<comm::Collective const> transaction);
  /// Counts bytes of `unit` that moved between workers and parameter servers: sends to, or receives from, all of them.
  void count(std::string_view what, FlatId unit, comm::Operation operation, std::int64_t bytes);
  /// Bytes moved so far, over all ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return moved_; }

 private:
  void submit(comm::Communicator& communicator, device::Stream& stream, bool across_groups, Names const& names,
              FlatId unit, std::span<comm::Collective const> transaction);

  /// Encodes what hop `h` of `trip`, a gather, sends, into scratch memory from `free` on, which it moves.
  [[nodiscard]] comm::Collective encoded(Trip const& trip, std::size_t h, std::byte*& free);
  /// Decodes what `gather` has gathered on hop `h` of `trip`.
  void decode(Trip const& trip, std::size_t h, comm::Collective const& gather);
  /// Runs hop `h`, a reduction, by a codec: encodes, sends each rank what it reduces, and adds up what comes.
  void run_encoded(Names const& names, FlatId unit, std::span<Trip const> trips, std::size_t h);

  Memory* memory_;
  std::vector<comm::Collective> transaction_;
  MovedBytes moved_;
};

}  // namespace zeroth::shard
