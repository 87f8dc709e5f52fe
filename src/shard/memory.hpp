// SPDX-License-Identifier: Apache-2.0
/// A rank's memory for the states of a model: the blocks of the plan, allocated once, and the addresses in them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "device/kernels.hpp"
#include "shard/call_log.hpp"
#include "shard/home.hpp"
#include "shard/layout.hpp"
#include "shard/memory_plan.hpp"
#include "shard/offloaded_parameters.hpp"
#include "shard/offloaded_states.hpp"
#include "shard/ranks.hpp"
#include "shard/route.hpp"
#include "shard/step_memory.hpp"
#include "shard/transaction_log.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::shard {

class ServerLinks;

/// The environment of the shard manager. All of it must outlive the manager. Gathers and reductions have their own
/// stream and communicators, so that neither waits for the other.
struct ManagerContext {
  device::Device* device = nullptr;
  device::Stream* gather_stream = nullptr;
  device::Stream* reduce_stream = nullptr;
  Ranks gather, reduce;  ///< The communicators of these streams. See Lane.
  model::Description const* model = nullptr;
  Layout const* layout = nullptr;
  /// The decision on a step is summed over these ranks too: those at this place in all stages of a pipeline and in all
  /// tensor parts. Null if there is only one.
  comm::Communicator* stages = nullptr;
  /// Workers and parameter servers, which decide a step together. Null without servers.
  comm::Communicator* deciders = nullptr;
  ServerLinks* servers = nullptr;        ///< Between workers and parameter servers. Null without servers.
  comm::Communicator* tensor = nullptr;  ///< The tensor ranks, on the reduce stream. Null if there is only one.
  /// One communicator for each of the layout's ties: the ranks that have this rank's slice of it, in the order of
  /// stages. Null if only this stage has it.
  std::vector<comm::Communicator*> ties;
  CallLog* calls = nullptr;      ///< Null if calls are not logged.
  bool registers_memory = true;  ///< Whether to register memory with these communicators.
};

/// The memory of all flat units: a plan, the blocks that it asks for, and addresses in them.
///
/// The tensors of a flat unit, of which docs/schedule.md has a picture. "Whole" is the full flat unit, "slice" the part
/// that this rank updates; Placement says which a state is. Streams are compute, gather and reduce.
///
/// - Parameters. Whole at stages 0 to 2, else a slice. The update writes them on compute, rounding masters. Gathers
///   read them on gather. They are also the masters if both have one dtype.
/// - A parameter slot. Whole, shared by all flat units, at stage 3 only. A gather fills it on gather; guards read it on
///   compute; it is free again when the last guard has ended.
/// - The gradient. Whole; at stages 0 and 1 memory of its own, else a slot as above. Backward adds to it on compute,
///   and the reduction reads it on reduce.
/// - `sums`. Whole, fp32. Only if micro-steps are accumulated in another dtype than backward writes. Reduce adds to it.
/// - The conversion. Whole, one for a bucket. The gradient in the dtype that travels, if it is another one.
/// - `reduced`. The optimizer's slice of the gradient, which the reduction writes on reduce and the update reads on
///   compute. It shares memory with the gradient, or with `sums`, if that is reduced in place.
/// - `delayed`. Only with zeroth.delayed_update: a copy of `reduced`, which the update reads while `reduced` is written
///   for the next step.
/// - `block_sums`. Sums of squares of `reduced`, written with it. All flat units' sums are added before the decision.
/// - The master and up to two states. The optimizer's slice. The update changes them on compute; if they are offloaded,
///   there are buffers for tiles instead.
/// - Lent parameters and gradients. Copies for guards, with poison only.
class Memory {
 public:
  /// Allocates memory, and registers with the communicators what they will move if context.registers_memory.
  /// Collective.
  Memory(ManagerContext const& context, PlanRequest const& request);
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;

  /// The addresses of a flat unit's states.
  struct Addresses {
    std::byte* parameters;  // null: offloaded
    std::byte* gradient;    // null: in slots
    std::byte* sums;        // sums of micro-steps; may be null
    std::byte* master;      // the optimizer's elements that are in memory; null if there are none
    std::array<std::byte*, optim::most_kept_states> states;  // like master; null beyond those of the optimizer
    std::byte* reduced;                                      // gradients of the optimizer's elements, which it reads
    std::byte* delayed;  // the same, of the step before; null if updates are not delayed
    Dtype reduced_dtype;
    /// Compute copy of the optimizer's elements; null if the parameters are the master, or if the copy is on the disk.
    std::byte* updated_parameters;
    float* errors;        // losses of encoding whole gradients or first moments; null if none are kept
    float* slice_errors;  // those of encoding this rank's slice of the sums
    float* block_sums;    // null if this rank counts no squares
    std::byte *lent_parameters, *lent_gradient;  // memory for guards, with poison
  };
  [[nodiscard]] Addresses addresses(FlatId flat) const noexcept;

  [[nodiscard]] std::byte* parameter_slots() const noexcept { return slots_->data() + plan_.parameter_slots; }
  [[nodiscard]] std::byte* gradient_slots() const noexcept { return slots_->data() + plan_.gradient_slots; }
  /// Scratch for gradients of other stages' uses of tied parameters; null if there are none.
  [[nodiscard]] std::byte* tied() const noexcept;
  /// Bucket buffer in the reduction dtype; null if nothing is converted.
  [[nodiscard]] std::byte* conversion() const noexcept;
  /// Memory for the encoded data that a transaction of `lane` sends and receives. Null if it encodes nothing.
  [[nodiscard]] std::byte* codec_scratch(Lane lane) const noexcept;
  /// Scratch for MatrixDirections; null without it.
  [[nodiscard]] std::byte* directions() const noexcept;
  /// Scratch for ParameterNorms, and the trust ratios in it, by parameter; null if the rule has none.
  [[nodiscard]] std::byte* parameter_norms() const noexcept;
  [[nodiscard]] float* trust_ratios() const noexcept;
  /// Scratch for EncodedMomenta; null if the rule has none.
  [[nodiscard]] std::byte* encoded_momenta() const noexcept;
  /// Memory of a parameter server for a slice of each worker and their sum; null on other ranks.
  [[nodiscard]] std::byte* pushed() const noexcept;
  /// Sets all that encoding has lost to zero, as when training begins. Waits.
  void clear_errors();
  /// Sums of squares of this rank's slices, for all flat units that count on this rank.
  [[nodiscard]] std::span<float const> block_sums() const noexcept;
  [[nodiscard]] StepMemory* step() const noexcept;
  /// Buffer for a piece of a shard on its way to a file.
  [[nodiscard]] std::span<float> transfer() const noexcept;

  [[nodiscard]] ManagerContext const& context() const noexcept { return context_; }
  [[nodiscard]] PlanRequest const& request() const noexcept { return request_; }
  [[nodiscard]] MemoryPlan const& plan() const noexcept { return plan_; }
  [[nodiscard]] device::Device& device() const noexcept { return *context_.device; }
  [[nodiscard]] device::Kernels& kernels() const noexcept { return context_.device->kernels(); }
  [[nodiscard]] device::Stream& compute() const noexcept { return context_.device->compute(); }
  /// The ranks among which parameters are gathered for a use; all ranks if parameters are whole.
  [[nodiscard]] comm::Communicator& gathers() const noexcept;
  /// Logs that `collectives`, of `unit` or of several that begin with it, were submitted to `among`; see CallLog and
  /// TransactionLog.
  void note_call(std::string_view what, std::optional<FlatId> unit, std::span<comm::Collective const> collectives,
                 comm::Communicator const& among);
  /// Logs messages of `bytes` in all, to or from all parameter servers; see CallLog.
  void note_messages(std::string_view what, FlatId unit, comm::Operation operation, std::int64_t bytes);
  /// One log per communicator, in the same order on all ranks.
  [[nodiscard]] std::span<TransactionLog const> transactions() const noexcept { return transactions_; }
  /// One hash of all the logs in transactions().
  [[nodiscard]] std::uint64_t transactions_hash() const noexcept;
  [[nodiscard]] int place() const noexcept { return context_.gather.all()->rank(); }
  [[nodiscard]] model::Description const& model() const noexcept { return *context_.model; }
  [[nodiscard]] Layout const& layout() const noexcept { return *context_.layout; }
  [[nodiscard]] FlatUnit const& flat(FlatId flat) const noexcept { return context_.layout->flats()[flat]; }
  /// The optimizer of `flat`'s parameters.
  [[nodiscard]] optim::Update const& update_of(FlatId flat) const noexcept {
    return shard::update_of(this->flat(flat), request_.settings);
  }
  /// The dtypes of `flat`'s states.
  [[nodiscard]] PrecisionSettings precision(FlatId flat) const noexcept {
    return precision_of(this->flat(flat), request_.settings);
  }
  [[nodiscard]] std::size_t flat_count() const noexcept { return context_.layout->flats().size(); }
  [[nodiscard]] Placement parameters_of(FlatId flat) const noexcept {
    return placement_of_parameters(this->flat(flat), request_);
  }
  [[nodiscard]] bool parameters_whole(FlatId flat) const noexcept { return parameters_of(flat) == Placement::whole; }
  [[nodiscard]] bool gradients_whole() const noexcept { return request_.placements.gradients == Placement::whole; }
  /// The collectives that move `flat`'s states.
  [[nodiscard]] Routes const& routes(FlatId flat) const noexcept { return routes_[flat]; }
  [[nodiscard]] Ranks const& ranks(Lane lane) const noexcept {
    return lane == Lane::gather ? context_.gather : context_.reduce;
  }
  [[nodiscard]] device::Stream& stream(Lane lane) const noexcept {
    return lane == Lane::gather ? *context_.gather_stream : *context_.reduce_stream;
  }
  /// Elements of `part` that this rank holds under `placement`.
  [[nodiscard]] Range held(Part const& part, Placement placement) const noexcept {
    return shard::held(part, placement, request_.places, place());
  }
  /// Elements of `flat`'s trainable part that the optimizer of this rank holds.
  [[nodiscard]] Range optimized(FlatId flat) const noexcept;
  /// Elements of FlatUnit::gradients() whose sums this rank has after the reduction: those that its optimizer reads.
  [[nodiscard]] Range summed(FlatId flat) const noexcept;
  /// How many elements of optimized(), from the first on, have their states in memory. The states of the others are in
  /// offloaded_states().
  [[nodiscard]] std::int64_t in_memory_count(FlatId flat) const noexcept { return plan_.flats[flat].in_memory_count; }
  /// Null if all optimizer states are in memory.
  [[nodiscard]] OffloadedStates* offloaded_states() const noexcept { return offloaded_states_.get(); }
  /// The home of sharded parameters, of which all, some or none are offloaded.
  [[nodiscard]] ParameterHome& home_of_parameters() const noexcept {
    return offloaded_parameters_ != nullptr ? *offloaded_parameters_ : *parameters_in_memory_;
  }
  /// The home of `flat`'s parameters.
  [[nodiscard]] ParameterHome& home_of_parameters(FlatId flat) const noexcept {
    return plan_.flats[flat].parameters < 0 ? home_of_parameters() : *parameters_in_memory_;
  }
  /// All offloaded states and parameters.
  [[nodiscard]] std::span<OffloadedStates* const> offloaded() const noexcept { return offloaded_; }

  /// The arguments of an update of `elements` of `flat`, counted from the optimizer's first one, for states in memory.
  /// Without segments.
  [[nodiscard]] optim::UpdateArgs update_args(FlatId flat, Range elements) const noexcept;
  /// The segments of such elements.
  [[nodiscard]] std::vector<optim::Segment> segments_of(FlatId flat, Range elements) const;
  /// The stream of updates. Delayed updates run concurrently with compute, on the gather stream, where each one is
  /// followed by its publish.
  [[nodiscard]] device::Stream& update_stream() const noexcept {
    return request_.settings.delayed_update ? *context_.gather_stream : compute();
  }
  /// Recorded on the stream of updates after an update of `flat`'s parameters.
  [[nodiscard]] device::Event& updated(FlatId flat) const noexcept { return *updated_[flat]; }

 private:
  void register_memory();
  void offload(std::function<void()> const& check);

  ManagerContext context_;
  PlanRequest request_;
  MemoryPlan plan_;
  ById<FlatId, Routes> routes_;
  std::unique_ptr<device::Memory> parameters_, gradients_, optimizer_, slots_, scratch_;
  ById<FlatId, std::unique_ptr<device::Event>> updated_;
  std::vector<std::unique_ptr<comm::Registration>> registrations_;  // for parameters, slots and gradients
  std::unique_ptr<OffloadedStates> offloaded_states_;
  std::unique_ptr<OffloadedParameters> offloaded_parameters_;
  std::unique_ptr<ParameterHome> parameters_in_memory_ = std::make_unique<ParameterHome>();
  std::vector<OffloadedStates*> offloaded_;
  std::vector<TransactionLog> transactions_;
};

/// One event per flat unit.
[[nodiscard]] ById<FlatId, std::unique_ptr<device::Event>> events_by_flat(ManagerContext const& context);

}  // namespace zeroth::shard
