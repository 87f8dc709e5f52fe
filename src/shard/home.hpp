// SPDX-License-Identifier: Apache-2.0
/// Where states live, as updates and gathers see it. The two classes here are memory of the device, where everything is
/// already; what is offloaded derives from them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/kernels.hpp"
#include "shard/tiles.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::shard {

class OffloadedStates;

/// Elements of a state that are offloaded, from `first` on as OffloadedStates counts them. Null: there are none.
struct OnDisk {
  OffloadedStates* disk = nullptr;
  FlatId flat{};
  std::size_t state = 0;
  std::int64_t first = 0;
};

/// Hands what this rank has updated to its replicas, and gets what they have: a tile's slices of so many bytes, one
/// after the other, between two events.
using Publish = std::function<void(Tile const& tile, std::byte* slices, std::int64_t bytes_of_each,
                                   device::Event& updated, device::Event& published)>;

/// The home of states that updates change, range by range in the order of updates.
class StateHome {
 public:
  explicit StateHome(device::Device& device) noexcept : device_{&device} {}
  StateHome(StateHome const&) = delete;
  StateHome& operator=(StateHome const&) = delete;
  virtual ~StateHome() = default;

  /// Puts into `args`, of the next range, where its states are in the order of stream(), until release().
  virtual void acquire(optim::UpdateArgs& /*args*/) {}
  /// Updates what was acquired, or a part of it.
  virtual void update(optim::UpdateArgs const& args) { device_->kernels().update(stream(), args); }
  virtual void release() {}
  /// Which updates run on.
  [[nodiscard]] virtual device::Stream& stream() noexcept { return device_->compute(); }

 protected:
  [[nodiscard]] device::Device& device() const noexcept { return *device_; }

 private:
  device::Device* device_;
};

/// The home of what a rank holds of flat units' parameters.
class ParameterHome {
 public:
  ParameterHome() = default;
  ParameterHome(ParameterHome const&) = delete;
  ParameterHome& operator=(ParameterHome const&) = delete;
  virtual ~ParameterHome() = default;

  /// Where elements of a part of `flat` are that are not in memory.
  [[nodiscard]] virtual OnDisk offloaded(FlatId /*flat*/, bool /*trainable*/) noexcept { return {}; }

  /// Do reads for gathers run beside what comes before?
  [[nodiscard]] virtual bool reads_ahead() const noexcept { return false; }
  /// Starts to read what bring() will be asked for, in that order, as far as there is room.
  virtual void read_ahead(FlatId /*flat*/) {}
  /// Brings what this rank holds of `flat` to `trainable` and `frozen`, on `stream`.
  virtual void bring(FlatId /*flat*/, device::Stream& /*stream*/, std::byte* /*trainable*/, std::byte* /*frozen*/) {}
  /// Makes the compute stream wait until all of what bring() was asked for last of `flat` is in memory.
  virtual void await(FlatId /*flat*/) {}
  /// What was read ahead and not brought is not what will be asked for, or not what will be there.
  virtual void drop() {}

  /// As StateHome's, of an update's parameters.
  virtual void acquire(optim::UpdateArgs& /*args*/) {}
  /// Behind the update of what was acquired, by which masters may have changed.
  virtual void round(optim::UpdateArgs const& /*args*/) {}
  virtual void release() {}
  /// All of `flat` has been released.
  virtual void note_updated(FlatId /*flat*/) {}
  /// How ranks that each update a slice of what they hold hand it to each other, where that is done by tiles.
  virtual void set_publish(Publish const& /*publish*/) {}
};

}  // namespace zeroth::shard
