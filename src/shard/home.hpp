// SPDX-License-Identifier: Apache-2.0
/// The storage of states, as updates and gathers see it. The two classes here are for states in memory of the device,
/// which need no transfer; those for offloaded states derive from them.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/kernels.hpp"
#include "shard/tiles.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::shard {

class OffloadedStates;

/// Offloaded elements of a state, from `first` on as OffloadedStates counts them. If `disk` is null, there are none.
struct OnDisk {
  OffloadedStates* disk = nullptr;
  FlatId flat{};
  std::size_t state = 0;
  std::int64_t first = 0;
};

/// Exchanges updated slices among replicas. `slices` are the slices of a tile, one after the other, of `bytes_of_each`
/// bytes each. Starts after `updated` and records `published`.
using Publish = std::function<void(Tile const& tile, std::byte* slices, std::int64_t bytes_of_each,
                                   device::Event& updated, device::Event& published)>;

/// Sets the addresses of an optimizer's states, in their order, for `args.update`.
inline void set_states(std::array<std::byte*, optim::most_kept_states> const& states,
                       optim::UpdateArgs& args) noexcept {
  std::copy_n(states.begin(), args.states.size(), args.states.begin());
  if (args.update->ema_decay >= 0) {
    auto const last = static_cast<std::size_t>(optim::state_count(args.update->rule));
    args.average = reinterpret_cast<float*>(states[last]);
  }
}

/// The home of states that updates change. Accessed range by range, in the order of updates.
class StateHome {
 public:
  explicit StateHome(device::Device& device) : StateHome{device, device.compute()} {}
  /// `stream` is the stream of updates.
  StateHome(device::Device& device, device::Stream& stream) noexcept : device_{&device}, stream_{&stream} {}
  StateHome(StateHome const&) = delete;
  StateHome& operator=(StateHome const&) = delete;
  virtual ~StateHome() = default;

  /// Makes the states of the next range available, in the order of stream(), until release(), and puts their addresses
  /// into `args`.
  virtual void acquire(optim::UpdateArgs& /*args*/) {}
  /// Updates the acquired range, or a part of it.
  virtual void update(optim::UpdateArgs const& args) { device_->kernels().update(stream(), args); }
  virtual void release() {}
  /// The stream of updates.
  [[nodiscard]] virtual device::Stream& stream() noexcept { return *stream_; }

 protected:
  [[nodiscard]] device::Device& device() const noexcept { return *device_; }

 private:
  device::Device* device_;
  device::Stream* stream_;
};

/// The home of the parameters that a rank holds.
class ParameterHome {
 public:
  ParameterHome() = default;
  ParameterHome(ParameterHome const&) = delete;
  ParameterHome& operator=(ParameterHome const&) = delete;
  virtual ~ParameterHome() = default;

  /// The elements of a part of `flat` that are not in memory.
  [[nodiscard]] virtual OnDisk offloaded(FlatId /*flat*/, bool /*trainable*/) noexcept { return {}; }

  /// Whether reads for gathers run concurrently with earlier work.
  [[nodiscard]] virtual bool reads_ahead() const noexcept { return false; }
  /// Starts to read what bring() will be asked for, in that order, as far as buffers are free.
  virtual void read_ahead(FlatId /*flat*/) {}
  /// Copies this rank's elements of `flat` to `trainable` and `frozen`, on `stream`.
  virtual void bring(FlatId /*flat*/, device::Stream& /*stream*/, std::byte* /*trainable*/, std::byte* /*frozen*/) {}
  /// Makes the compute stream wait until all that the last bring() of `flat` requested is in memory.
  virtual void await(FlatId /*flat*/) {}
  /// Discards prefetched reads that are stale or no longer needed.
  virtual void drop() {}

  /// Like StateHome::acquire(), for the parameters of an update.
  virtual void acquire(optim::UpdateArgs& /*args*/) {}
  /// Call after the update of the acquired range, which may have changed masters.
  virtual void round(optim::UpdateArgs const& /*args*/) {}
  virtual void release() {}
  /// Call once all of `flat` has been released.
  virtual void note_updated(FlatId /*flat*/) {}
  /// Sets how replicas exchange the slices that each has updated, if that happens tile by tile.
  virtual void set_publish(Publish const& /*publish*/) {}
};

}  // namespace zeroth::shard
