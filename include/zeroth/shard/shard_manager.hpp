/// Owns a rank's parameters, gradients and optimizer states, and moves them: gather, release, reduce, update, publish.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/device/kernels.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/shard/layout.hpp"
#include "zeroth/shard/memory_plan.hpp"
#include "zeroth/shard/slots.hpp"
#include "zeroth/shard/step_memory.hpp"

namespace zeroth::shard {

/// What a manager works with. All outlive it. Gathers and reductions have a stream and a communicator each, so that
/// neither waits for the other.
struct ManagerContext {
  device::Device* device = nullptr;
  device::Stream* gather_stream = nullptr;
  device::Stream* reduce_stream = nullptr;
  comm::Communicator* gather_comm = nullptr;
  comm::Communicator* reduce_comm = nullptr;
  model::Description const* model = nullptr;
  Layout const* layout = nullptr;
  bool poison = false;  ///< As the request's; and fill with NaN what holds nothing valid.
};

/// Bytes handed to collectives, of full units.
struct Traffic {
  std::int64_t gathered_bytes = 0, reduced_bytes = 0;
};

enum class Drop : std::uint8_t { trainable, all };
enum class Moments : bool { without, with };

/// Verbs are enqueued, in program order on every rank; none blocks the host on a GPU, and on the CPU only those that
/// work on the compute stream wait. Nothing here knows a stage: placements say what there is to do.
class ShardManager {
 public:
  /// Waits. `loss_scale` is that of the first loss.
  ShardManager(ManagerContext const& context, PlanRequest const& request, optim::LossScaleState const& loss_scale);

  // ---- parameters ----
  /// Is `flat` readable, or on its way? Always, where parameters are whole.
  [[nodiscard]] bool gathered(std::uint32_t flat) noexcept;
  /// Starts to gather `flat`. Takes a slot away from the unpinned unit with the greatest `distance` if all are bound.
  /// Throws ContractError if all are pinned. Only where !gathered(flat).
  void gather(std::uint32_t flat, std::string_view purpose, std::function<std::int64_t(std::uint32_t)> const& distance);
  /// A use begins: the slot is not to be taken away. Only where gathered(flat).
  void pin(std::uint32_t flat) noexcept;
  /// Makes the compute stream wait until `flat`, which is pinned, is readable.
  void await(std::uint32_t flat, std::string_view purpose);
  /// A use ends.
  void release(std::uint32_t flat, std::string_view purpose);
  /// Address of a parameter of a unit that is pinned and was awaited. With poison of a copy, NaN after the last
  /// release.
  [[nodiscard]] std::byte const* parameter(std::uint32_t param) noexcept;

  // ---- gradients ----
  /// Has memory to write `flat`'s gradients to, or gets it now. False if every slot is taken: reduce something first.
  [[nodiscard]] bool begin_gradient(std::uint32_t flat);
  struct Contribution {
    std::byte* data;
    float beta;
  };
  /// Where to add a contribution to `param`'s gradient; beta is 0 for the first, after what was there is reduced or in
  /// a sum.
  [[nodiscard]] Contribution contribute(std::uint32_t param);
  /// All contributions since the last call are enqueued. With poison they were made to copies: takes them over, and
  /// leaves NaN there.
  void end_contributions();
  /// All contributions of this micro-step are enqueued. Before a reduction, zeroes what had none. Where micro-steps are
  /// summed up in fp32, adds this one to the sum, which is what is reduced, and gives up the memory that it was in.
  void end_gradient(std::uint32_t flat, bool reduce_next);
  /// Reduces complete gradients in one transaction, adds the results up over the step's reductions, and with `last`
  /// leaves the block sums of their squares.
  void reduce(std::span<std::uint32_t const> flats, bool last);

  // ---- update ----
  /// Sums `mine`, to which `losses` are added on the device, over ranks, and turns the sums into the step's scalars:
  /// see StepMemory. `slot` of results().
  void decide(optim::StepSums const& mine, std::span<optim::LossTerm const> losses, optim::StepRules const& rules,
              std::size_t slot);
  /// Makes the compute stream wait for decide(), and for everything that still reads what update() writes.
  void begin_update();
  void update(std::uint32_t flat, optim::AdamRules const& rules);
  /// Hands this rank's updated slice to all, where parameters are whole and the optimizer is not.
  void publish(std::uint32_t flat);
  /// Gathered copies of trainable units, or of all, are no longer valid.
  void drop_gathered(Drop what) noexcept;
  /// Makes the compute stream wait until nobody reads this rank's shards any more.
  void await_gathers();
  /// As decide, for the loss of evaluation passes alone. Waits.
  [[nodiscard]] optim::StepSums sum_evaluation(optim::StepSums const& mine);
  /// Results of the last two decide()s, by slot. Waits until they can be read.
  [[nodiscard]] StepResults const& results();
  /// Of the next loss. Waits for the last decide() if the scale is dynamic, and for nothing otherwise.
  [[nodiscard]] float loss_scale();

  // ---- values ----
  /// Fills every element that this rank holds.
  void initialise();
  /// Elements of `param` that this rank holds in any state.
  [[nodiscard]] Range held_of(std::uint32_t param) const noexcept;
  /// Elements of `param` in rank `rank`'s slice; begin == end if there are none.
  [[nodiscard]] Range slice_of(std::uint32_t param, int rank) const noexcept;
  /// Sets elements [first, first + values.size()) of `param`: master and compute copy, as far as they are held. Waits.
  /// `values` are in memory of Device::allocate_host().
  void store(std::uint32_t param, std::int64_t first, std::span<float const> values);
  /// Reads elements of this rank's slice: the master, or the compute copy of a frozen one. Waits. `values` are in
  /// transfer(), or in memory of Device::allocate_host().
  void load(std::uint32_t param, std::int64_t first, std::span<float> values);

  /// Does every rank hold some state whole?
  [[nodiscard]] bool replicates() const noexcept { return parameters_whole() || optimizer_whole(); }
  /// Of all that every rank holds whole of `flat`, once nothing writes to it any more; equal on all ranks. Waits.
  /// `piece` is of Device::allocate_host().
  [[nodiscard]] std::uint64_t hash_whole(std::uint32_t flat, Moments moments, std::span<std::byte> piece);

  [[nodiscard]] MemoryPlan const& plan() const noexcept { return plan_; }
  [[nodiscard]] Traffic const& traffic() const noexcept { return traffic_; }
  /// How often a gathered unit's slot was taken away or dropped so far.
  [[nodiscard]] std::int64_t given_up() const noexcept { return parameter_pool_.unbound(); }
  [[nodiscard]] int parameter_slots_high_water() const noexcept { return parameter_pool_.high_water(); }
  [[nodiscard]] int gradient_slots_high_water() const noexcept { return gradient_pool_.high_water(); }
  /// Memory of the device for a piece of a shard on its way to a file.
  [[nodiscard]] std::span<float> transfer() noexcept;

 private:
  struct Addresses {
    std::byte *parameters, *gradient;  // null: in slots
    std::byte* sums;                   // of micro-steps, or null
    std::byte *master, *m, *v;         // of what the optimizer holds
    std::byte* reduced;                // what the optimizer reads, of what it holds
    Dtype reduced_dtype;
    std::byte* updated_parameters;  // compute copy of what the optimizer holds; null where the master is all there is
    float* block_sums;
  };
  [[nodiscard]] Addresses addresses(std::uint32_t flat) const noexcept;
  [[nodiscard]] bool empty(std::uint32_t flat) const noexcept;
  [[nodiscard]] bool parameters_whole() const noexcept;
  [[nodiscard]] bool gradients_whole() const noexcept;
  [[nodiscard]] bool optimizer_whole() const noexcept;
  [[nodiscard]] Slot& parameter_slot(std::uint32_t flat) noexcept;
  [[nodiscard]] Slot& gradient_slot(std::uint32_t flat) noexcept;
  struct Gradients {
    std::byte *held, *lent;
    std::int64_t bytes;
  };
  [[nodiscard]] Gradients gradients_of(std::uint32_t param) noexcept;
  [[nodiscard]] std::byte* lent_parameters(std::uint32_t flat) const noexcept;
  [[nodiscard]] std::string_view name(std::uint32_t flat) const noexcept;
  void fill(device::Stream& stream, std::byte* data, Range range, Dtype dtype, std::uint8_t value);
  /// What is reduced, and in which dtype it is.
  [[nodiscard]] std::pair<std::byte*, Dtype> unreduced(std::uint32_t flat) noexcept;
  void add_up(std::uint32_t flat, bool last);
  void reduced(std::uint32_t flat, std::byte* data, bool last);
  void give_up_gradient(std::uint32_t flat);

  ManagerContext context_;
  PlanRequest request_;
  MemoryPlan plan_;
  int rank_;
  device::Kernels* kernels_;
  std::unique_ptr<device::Memory> parameters_, gradients_, optimizer_, slots_, scratch_;
  std::vector<std::unique_ptr<comm::Registration>> registrations_;  // of parameters, slots and gradients
  StepMemory* step_;                                                // on the device
  std::unique_ptr<device::Memory> host_;
  StepResults* results_;
  SlotPool parameter_pool_, gradient_pool_;
  std::vector<Slot> whole_parameters_, whole_gradients_;
  std::vector<std::vector<optim::AdamwSegment>> segments_;  // by flat unit
  std::vector<std::unique_ptr<device::Event>> written_;     // by flat unit: its gradients, on the compute stream
  std::vector<std::unique_ptr<device::Event>> updated_;     // by flat unit, on the compute stream
  std::unique_ptr<device::Event> decided_, gathers_done_;
  std::int64_t last_decided_ = -1;    // slot of the last decide() with a dynamic loss scale
  std::vector<char> accumulating_;    // by flat unit: what backward writes holds gradients that are needed
  std::vector<char> summed_before_;   // by flat unit: a micro-step of this step is in the sum
  std::vector<char> reduced_before_;  // by flat unit, in this step
  std::vector<char> touched_;         // by parameter: beta is 1
  std::vector<std::uint32_t> lent_;   // parameters whose gradients are being written to copies
  std::vector<comm::Collective> transaction_;
  Traffic traffic_;
};

}  // namespace zeroth::shard
