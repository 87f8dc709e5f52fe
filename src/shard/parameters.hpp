// SPDX-License-Identifier: Apache-2.0
/// Parameters as kernels read them: gathered into slots, or held whole.
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

/// Gathers and publishes run on the gather stream; publishes among replicas run on the reduce stream.
class Parameters {
 public:
  explicit Parameters(Memory& memory);

  /// Bytes that a plan reserves for what gathers and publishes send and receive encoded, by lanes.
  struct EncodedBytes {
    std::int64_t gather = 0, reduce = 0;
  };
  [[nodiscard]] static EncodedBytes encoded_bytes(Layout const& layout, PlanRequest const& request);
  /// Whether `flat` is gathered or in flight. Always true if parameters are whole.
  [[nodiscard]] bool gathered(FlatId flat) noexcept;
  /// Starts to gather `flat`. False if every slot of its class is taken: evict a unit first. Only if !gathered(flat).
  [[nodiscard]] bool gather(FlatId flat, std::string_view purpose);
  /// Starts to read this rank's piece of `flat` from the disk, if it is there. Gathers are expected in the order of
  /// these calls. Does nothing if `flat` is gathered.
  void read_ahead(FlatId flat);
  /// Whether reads run concurrently with earlier work.
  [[nodiscard]] bool reads_ahead() const noexcept { return memory_->home_of_parameters().reads_ahead(); }
  /// Frees the slot of `flat`, which is gathered and not pinned.
  void evict(FlatId flat) noexcept { pool_.unbind(*pool_.find(flat)); }
  /// Whether a use of `flat`, which is gathered into a slot, is open.
  [[nodiscard]] bool pinned(FlatId flat) noexcept { return pool_.find(flat)->pins > 0; }
  /// Begins a use: the slot cannot be evicted. Only if gathered(flat).
  void pin(FlatId flat) noexcept;
  /// Makes the compute stream wait until `flat`, which is pinned, is readable.
  void await(FlatId flat, std::string_view purpose);
  /// Ends a use.
  void release(FlatId flat, std::string_view purpose);
  /// Makes the stream of updates wait until all uses of `flat` that have ended are over.
  void await_uses(FlatId flat);
  /// Address of a parameter of a unit that is pinned and was awaited. With poison, the address in a copy, which is NaN
  /// after the last release.
  [[nodiscard]] std::byte const* address(ParamId param) noexcept;
  /// Sends what this rank has updated, in one transaction, to the other ranks that hold it, if parameters are sharded
  /// less than the optimizer. If nothing is sent, later uses still wait for a delayed update. All or none of `flats`
  /// are persistent. Parameters on a disk were published tile by tile already.
  void publish(std::span<FlatId const> flats);
  /// Whether publish() sends to replicas in other groups, each of which gathers within its group afterwards.
  [[nodiscard]] bool publishes_to_replicas() const noexcept;
  /// Invalidates gathered copies of trainable units.
  void drop_trainable() noexcept;
  /// Call before values and states are written: invalidates gathered copies of all units, and what was read ahead for
  /// updates. Waits.
  void drop_all();
  /// Like drop_all() for parameters that are not offloaded. Slots are taken in the order of their addresses afterwards,
  /// so that the same gathers always use the same ones.
  void start_over() noexcept;
  /// The address of `flat`'s slot; null if it is in none.
  [[nodiscard]] std::byte const* slot_of(FlatId flat) noexcept;
  /// Makes the compute stream wait until no rank reads this rank's slices any more, and all published slices have
  /// arrived.
  void await_gathers();

  /// How often a gathered unit was evicted or dropped so far.
  [[nodiscard]] std::int64_t evictions() const noexcept { return pool_.unbound(); }
  [[nodiscard]] int slots_high_water() const noexcept { return pool_.high_water(); }
  /// Bytes passed to collectives so far, over all ranks.
  [[nodiscard]] MovedBytes gathered_bytes() const noexcept { return gatherer_->moved() + carrier_.moved(); }

 private:
  [[nodiscard]] Slot& slot(FlatId flat) noexcept;
  template <class F>
  void drop(F const& is_invalid) noexcept;
  void pull(FlatId flat);
  void publish_tile(Tile const& tile, std::byte* slices, std::int64_t bytes_of_each, device::Event& updated,
                    device::Event& published);
  [[nodiscard]] bool empty(FlatId flat) const noexcept { return memory_->flat(flat).padded_count() == 0; }
  [[nodiscard]] std::string_view name(FlatId flat) const noexcept { return memory_->flat(flat).name; }
  [[nodiscard]] Dtype dtype(FlatId flat) const noexcept { return memory_->precision(flat).compute; }
  [[nodiscard]] std::int64_t element_bytes(FlatId flat) const noexcept { return bytes_of(dtype(flat)); }

  Memory* memory_;
  device::Stream* stream_;
  comm::FlightRecorder* recorder_;  // records gathers
  bool poison_;
  SlotPool pool_;
  ById<FlatId, Slot> whole_;  // for flat units held whole
  /// Recorded on the reduce stream once this rank has what its replicas updated. Used if parameters are sharded within
  /// a group.
  ById<FlatId, std::unique_ptr<device::Event>> published_;
  std::unique_ptr<device::Event> gathers_done_;
  std::vector<Trip> trips_;
  Carrier carrier_;  // for publishes
  std::unique_ptr<Gatherer> gatherer_;
};

}  // namespace zeroth::shard
