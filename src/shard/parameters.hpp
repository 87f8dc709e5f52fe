// SPDX-License-Identifier: Apache-2.0
/// Parameters where kernels read them: gathered into slots, or held whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shard/carrier.hpp"
#include "shard/gatherer.hpp"
#include "shard/memory.hpp"
#include "shard/slots.hpp"

namespace zeroth::shard {

/// Gathers and publishes run on the gather stream; what is published among replicas, on the reduce stream.
class Parameters {
 public:
  explicit Parameters(Memory& memory);

  /// Is `flat` readable, or on its way? Always, where parameters are whole.
  [[nodiscard]] bool gathered(FlatId flat) noexcept;
  /// Starts to gather `flat`. False if every slot that it could have is taken: evict a unit first. Only where
  /// !gathered(flat).
  [[nodiscard]] bool gather(FlatId flat, std::string_view purpose);
  /// Starts to read from the disk, where it is there, what this rank brings to the gather of `flat`: the next one but
  /// those of what was read ahead before. Nothing, where it is gathered.
  void read_ahead(FlatId flat);
  /// Do reads run beside what comes before?
  [[nodiscard]] bool reads_ahead() const noexcept { return memory_->home_of_parameters().reads_ahead(); }
  /// Takes the slot away from `flat`, which is gathered and not pinned.
  void evict(FlatId flat) noexcept { pool_.unbind(*pool_.find(flat)); }
  /// Is a use of `flat`, which is gathered into a slot, open?
  [[nodiscard]] bool pinned(FlatId flat) noexcept { return pool_.find(flat)->pins > 0; }
  /// A use begins: the slot is not to be evicted. Only where gathered(flat).
  void pin(FlatId flat) noexcept;
  /// Makes the compute stream wait until `flat`, which is pinned, is readable.
  void await(FlatId flat, std::string_view purpose);
  /// A use ends.
  void release(FlatId flat, std::string_view purpose);
  /// Address of a parameter of a unit that is pinned and was awaited. With poison of a copy, NaN after the last
  /// release.
  [[nodiscard]] std::byte const* address(ParamId param) noexcept;
  /// Hands what this rank has updated, in one transaction, to those that hold it too: where parameters are held coarser
  /// than the optimizer. All or none of `flats` are persistent. Those on a disk have gone there by tiles already.
  void publish(std::span<FlatId const> flats);
  /// Are they other groups' ranks, each of which gathers with its group afterwards?
  [[nodiscard]] bool publishes_to_replicas() const noexcept;
  /// Gathered copies of trainable units are no longer valid.
  void drop_trainable() noexcept;
  /// Values and states are about to be written: likewise those of all units, and what was read ahead for updates.
  /// Waits.
  void drop_all();
  /// Makes the compute stream wait until no rank reads this rank's slices any more, and all that was published is here.
  void await_gathers();

  /// How often a gathered unit was evicted or dropped so far.
  [[nodiscard]] std::int64_t evictions() const noexcept { return pool_.unbound(); }
  [[nodiscard]] int slots_high_water() const noexcept { return pool_.high_water(); }
  /// Handed to collectives so far, of all their ranks.
  [[nodiscard]] MovedBytes gathered_bytes() const noexcept { return gatherer_->moved() + carrier_.moved(); }

 private:
  [[nodiscard]] Slot& slot(FlatId flat) noexcept;
  template <class F>
  void drop(F const& is_invalid) noexcept;
  void publish_tile(Tile const& tile, std::byte* slices, std::int64_t bytes_of_each, device::Event& updated,
                    device::Event& published);
  [[nodiscard]] bool empty(FlatId flat) const noexcept { return memory_->flat(flat).padded_count() == 0; }
  [[nodiscard]] std::string_view name(FlatId flat) const noexcept { return memory_->flat(flat).name; }

  Memory* memory_;
  device::Stream* stream_;
  comm::FlightRecorder* recorder_;  // of gathers
  Dtype dtype_;
  bool poison_;
  SlotPool pool_;
  ById<FlatId, Slot> whole_;  // of those whose parameters are whole
  /// On the reduce stream: this rank has what its replicas updated. Where parameters are cut among a group.
  ById<FlatId, std::unique_ptr<device::Event>> published_;
  std::unique_ptr<device::Event> gathers_done_;
  std::vector<Trip> trips_;
  Carrier carrier_;  // of what is published
  std::unique_ptr<Gatherer> gatherer_;
};

}  // namespace zeroth::shard
