// SPDX-License-Identifier: Apache-2.0
/// Gradients, from backward's first contribution to the sums that the optimizer reads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/memory.hpp"
#include "shard/moved_bytes.hpp"
#include "shard/reducer.hpp"
#include "shard/replay.hpp"
#include "shard/slots.hpp"
#include "shard/tied_sums.hpp"

namespace zeroth::shard {

/// Contributions run on the compute stream; sums and reductions run on the reduce stream.
class Gradients {
 public:
  explicit Gradients(Memory& memory);
  /// Begins a pass, which is a run of the `step`th step.
  void begin_pass(Run run, std::int64_t step) noexcept;
  /// Whether this step is after the optimizer's freeze: ranks keep their own gradients, and do not sum them.
  [[nodiscard]] bool frozen() const noexcept { return step_ > freeze_step_; }

  /// Ensures that `flat`'s gradients have memory. False if every slot is taken: reduce something first.
  [[nodiscard]] bool begin(FlatId flat);
  struct Target {
    std::byte* data;
    float beta;
  };
  /// The address at which `unit` adds a contribution to `param`'s gradient. beta is 0 for the first one since the
  /// memory's last content was reduced or added to a sum.
  [[nodiscard]] Target contribute(UnitId unit, ParamId param);
  /// Call once all contributions to `flat` since the last call are enqueued. With poison they were written to copies:
  /// copies these back to the gradients, and fills them with NaN.
  void end_contributions(FlatId flat);
  /// Call once all contributions of this micro-step are enqueued.
  /// The first run of two hashes them and releases their memory; the second throws SystemError, which names the
  /// parameter, if they differ from the first run's.
  /// Before a reduction, zeroes gradients without contributions, and the padding of parameters. If micro-steps are
  /// accumulated in fp32, adds this one to the sum, which is what is reduced, and releases the memory that it was in.
  void end(FlatId flat, bool reduce_next);
  /// Reduces complete gradients in one transaction; see Reducer.
  void reduce(std::span<FlatId const> flats, bool last);
  /// Call after the last pass before an update, once this stage has sent everything to other stages. If all gradients
  /// have had their last reduction, adds up those of ties that are summed apart: see TiedSums.
  void end_passes();

  /// Makes slots be taken in the order of their addresses from now on. Call between steps.
  void start_over() noexcept { pool_.restore_order(); }
  /// Calls `action` before each reduction that changes what encoding has lost of gradients.
  void set_before_errors(std::function<void()> action) { reducer_->set_before_errors(std::move(action)); }
  /// This rank's addends of partial gradients.
  [[nodiscard]] Addends& addends() noexcept { return reducer_->addends(); }
  [[nodiscard]] int slots_high_water() const noexcept { return pool_.high_water(); }
  /// Bytes passed to collectives so far, over all ranks.
  [[nodiscard]] MovedBytes reduced_bytes() const noexcept { return reducer_->moved() + tied_sums_.moved(); }

 private:
  /// A range of a flat unit whose gradient is written to a copy.
  struct Lent {
    GradientLocation at;
    std::int64_t bytes;
  };
  [[nodiscard]] std::byte* held(FlatId flat, std::int64_t in_part) noexcept;
  [[nodiscard]] std::byte* lent(GradientLocation const& at) const noexcept;  ///< Used with poison.
  void copy(Lent const& lent, std::byte* destination, std::byte const* source);
  [[nodiscard]] Slot& slot(FlatId flat) noexcept;
  [[nodiscard]] std::string_view name(FlatId flat) const noexcept { return memory_->flat(flat).name; }
  [[nodiscard]] Dtype dtype(FlatId flat) const noexcept { return memory_->precision(flat).gradient; }
  void fill(FlatId flat, Range range, std::uint8_t value);
  void clear_padding(FlatId flat, Placed const& placed);
  void compare(FlatId flat);
  void add_up(FlatId flat, bool last);
  void delay(FlatId flat);
  void give_up(FlatId flat);

  Memory* memory_;
  device::Stream* stream_;
  bool sums_micro_steps_, poison_;
  SlotPool pool_;
  std::unique_ptr<Reducer> reducer_;
  Replay replay_;
  std::int64_t freeze_step_, step_ = 0;
  ById<FlatId, Slot> whole_;                              // used if gradients are whole
  ById<FlatId, std::unique_ptr<device::Event>> written_;  // on the compute stream
  ById<FlatId, char> accumulating_;   // whether the memory that backward writes holds gradients that are needed
  ById<FlatId, char> summed_before_;  // whether a micro-step of this step is in the sum
  ById<GradientId, char> touched_;    // whether beta is 1
  std::vector<Lent> lent_;
  std::size_t reduced_last_ = 0;  // flat units whose gradients of this step are complete
  TiedSums tied_sums_;
  std::vector<Unreduced> unreduced_;
};

}  // namespace zeroth::shard
