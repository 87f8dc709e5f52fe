// SPDX-License-Identifier: Apache-2.0
/// Sets, reads and hashes single values of parameters, wherever they are held.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/lane_hash.hpp"
#include "shard/held_state.hpp"
#include "shard/memory.hpp"

namespace zeroth::shard {

enum class States : bool { without, with };

/// Works on the compute stream, between passes.
class Values {
 public:
  explicit Values(Memory& memory) noexcept : memory_{&memory} {}

  /// Fills every element that this rank holds.
  void initialise();
  /// Elements of `param` that this rank holds in any state.
  [[nodiscard]] Range held_of(ParamId param) const noexcept;
  /// Elements of `param` in the slice of `place`; begin == end if there are none.
  [[nodiscard]] Range slice_of(ParamId param, int place) const noexcept;
  /// Sets elements [first, first + values.size()) of `param`: master, average and compute copy, as far as they are
  /// held. Waits.
  /// `values` are in memory of Device::allocate_host(). They begin at a multiple of codec_block_count, and end at one
  /// or at the parameter's end.
  void store(ParamId param, std::int64_t first, std::span<float const> values);
  /// Sets the averages that this rank holds to the masters. Waits.
  void begin_averages();
  /// Exchanges the masters that this rank holds with their averages. Waits. Compute copies are unchanged; see
  /// Slices::spread().
  void swap_averages();
  /// Reads elements of this rank's slice: the master, or a frozen parameter's compute copy. Waits. `values` are in
  /// transfer(), or in memory of Device::allocate_host().
  void load(ParamId param, std::int64_t first, std::span<float> values);
  /// Reads elements of the reduced gradient, after a step's last reduction and before its update. Like load()
  /// otherwise.
  void load_gradient(ParamId param, std::int64_t first, std::span<float> values);
  /// Memory of the device for a piece of a shard on its way to a file.
  [[nodiscard]] std::span<float> transfer() noexcept { return memory_->transfer(); }

  /// Whether any state has `placement`.
  [[nodiscard]] bool holds(Placement placement) const noexcept;
  /// The hash of all states of `flat` with `placement`, once nothing writes to them any more. Equal on all ranks that
  /// hold the same: all, or replicas. Waits. `piece` is of Device::allocate_host().
  [[nodiscard]] std::uint64_t hash(FlatId flat, Placement placement, States states, std::span<std::byte> piece);

  /// The hash of this rank's own slice of `flat`'s trainable part: the master, and with `with` the optimizer's states.
  [[nodiscard]] std::uint64_t hash_of_slice(FlatId flat, States states, std::span<std::byte> piece);

 private:
  [[nodiscard]] Range of_param(ParamId param, Range const& of_part) const noexcept;
  [[nodiscard]] Part const& part_of(Location const& location) const noexcept;
  /// This rank's elements of a state of a part.
  struct Copy {
    HeldState state;
    Range elements;
  };
  [[nodiscard]] Copy masters(FlatId flat) const;
  [[nodiscard]] Copy compute_copy(FlatId flat, bool trainable) const;
  template <class F>
  void write(Copy const& copy, std::int64_t first, std::span<float const> values, F const& put);
  void read(Copy const& copy, std::int64_t first, std::span<float> values);
  template <class F>
  void each_average(F const& move);
  void take(HeldState const& held, Range elements, std::byte* to);
  void put(HeldState const& held, Range elements, std::byte const* from);

  void add_to(LaneHash& hash, HeldState const& held, std::int64_t elements, std::span<std::byte> piece);

  Memory* memory_;
};

}  // namespace zeroth::shard
