// SPDX-License-Identifier: Apache-2.0
/// Gradients from backward's first contribution to what the optimizer reads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shard/memory.hpp"
#include "shard/moved_bytes.hpp"
#include "shard/reducer.hpp"
#include "shard/replay.hpp"
#include "shard/slots.hpp"
#include "shard/tied_sums.hpp"

namespace zeroth::shard {

/// Contributions are made on the compute stream; sums and reductions run on the reduce stream.
class Gradients {
 public:
  explicit Gradients(Memory& memory);
  /// A pass begins that is a run of the `step`th step.
  void begin_pass(Run run, std::int64_t step) noexcept;

  /// Has memory to write `flat`'s gradients to, or gets it now. False if every slot is taken: reduce something first.
  [[nodiscard]] bool begin(FlatId flat);
  struct Target {
    std::byte* data;
    float beta;
  };
  /// Where `unit` adds a contribution to `param`'s gradient; beta is 0 for the first, after what was there is reduced
  /// or in a sum.
  [[nodiscard]] Target contribute(UnitId unit, ParamId param);
  /// All contributions to `flat` since the last call are enqueued. With poison they were made to copies: takes them
  /// over, and leaves NaN there.
  void end_contributions(FlatId flat);
  /// All contributions of this micro-step are enqueued. The first run of two hashes them and gives up their memory; the
  /// second throws SystemError, which names the parameter, where they differ from the first's. Before a reduction,
  /// zeroes what had none, and the padding of parameters. Where micro-steps are summed up in fp32, adds this one to the
  /// sum, which is what is reduced, and gives up the memory that it was in.
  void end(FlatId flat, bool reduce_next);
  /// Reduces complete gradients together; see Reducer.
  void reduce(std::span<FlatId const> flats, bool last);
  /// The last pass before an update is over, and what this stage sends to others has been sent. If all have had their
  /// last reduction, adds up those of ties that are summed apart: see TiedSums.
  void end_passes();

  [[nodiscard]] int slots_high_water() const noexcept { return pool_.high_water(); }
  /// Handed to collectives so far, of all their ranks.
  [[nodiscard]] MovedBytes reduced_bytes() const noexcept { return reducer_->moved() + tied_sums_.moved(); }

 private:
  /// Part of a flat unit that a copy is written to in its place.
  struct Lent {
    GradientLocation at;
    std::int64_t bytes;
  };
  [[nodiscard]] std::byte* held(FlatId flat, std::int64_t in_part) noexcept;
  [[nodiscard]] std::byte* lent(GradientLocation const& at) const noexcept;  ///< With poison.
  void copy(Lent const& lent, std::byte* destination, std::byte const* source);
  [[nodiscard]] Slot& slot(FlatId flat) noexcept;
  [[nodiscard]] std::string_view name(FlatId flat) const noexcept { return memory_->flat(flat).name; }
  void fill(FlatId flat, Range range, std::uint8_t value);
  void clear_padding(FlatId flat, Placed const& placed);
  void compare(FlatId flat);
  void add_up(FlatId flat, bool last);
  void give_up(FlatId flat);

  Memory* memory_;
  device::Stream* stream_;
  Dtype dtype_;
  bool sums_micro_steps_, poison_;
  SlotPool pool_;
  std::unique_ptr<Reducer> reducer_;
  Replay replay_;
  std::int64_t step_ = 0;
  ById<FlatId, Slot> whole_;                              // where gradients are whole
  ById<FlatId, std::unique_ptr<device::Event>> written_;  // on the compute stream
  ById<FlatId, char> accumulating_;                       // what backward writes holds gradients that are needed
  ById<FlatId, char> summed_before_;                      // a micro-step of this step is in the sum
  ById<GradientId, char> touched_;                        // beta is 1
  std::vector<Lent> lent_;
  std::size_t reduced_last_ = 0;  // flat units whose gradients of this step are complete
  TiedSums tied_sums_;
  std::vector<Unreduced> unreduced_;
};

}  // namespace zeroth::shard
