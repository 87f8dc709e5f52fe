// SPDX-License-Identifier: Apache-2.0
/// Collectives among a fixed group of ranks, in stream order. Backends: local (threads), mpi, nccl, tcp.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/comm/key_value_store.hpp"
#include "zeroth/comm/transport.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/reduce.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::comm {

class FlightRecorder;

/// The kind of a collective; see Collective for shapes.
enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  send,
  receive,
  barrier
};
/// The enumerator's name, for messages and records.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Operation operation) noexcept;

/// The operation of a backward pass whose forward pass did `operation` by sum and with the same root: the adjoint of
/// the linear map from all ranks' inputs to all ranks' outputs. Broadcast and reduce, scatter and gather, all-gather
/// and reduce-scatter, and send and receive are each other's adjoints; all-reduce, all-to-all and barrier are their
/// own.
[[nodiscard]] constexpr Operation adjoint_of(Operation operation) noexcept {
  switch (operation) {
    case Operation::broadcast: return Operation::reduce;
    case Operation::reduce: return Operation::broadcast;
    case Operation::scatter: return Operation::gather;
    case Operation::gather: return Operation::scatter;
    case Operation::all_gather: return Operation::reduce_scatter;
    case Operation::reduce_scatter: return Operation::all_gather;
    case Operation::send: return Operation::receive;
    case Operation::receive: return Operation::send;
    default: return operation;
  }
}

/// One collective. `count` is what NCCL means by it, with W ranks:
///
/// | operation      | input             | output           | in place when               |
/// |----------------|-------------------|------------------|-----------------------------|
/// | all_reduce     | [count]           | [count]          | input == output             |
/// | all_gather     | [count]           | [W * count]      | input == output + rank*count|
/// | reduce_scatter | [W * count]       | [count]          | output == input + rank*count|
/// | broadcast      | [count] on root   | [count]          | input == output             |
/// | reduce         | [count]           | [count] on root  | input == output             |
/// | gather         | [count]           | [W * count] root | input == output + rank*count|
/// | scatter        | [W * count] root  | [count]          | output == input + rank*count|
/// | all_to_all     | [W * count]       | [W * count]      | never                       |
/// | send, receive  | [count], null     | null, [count]    |                             |
/// | barrier        | null              | null             |                             |
///
/// Any other overlap of memory is rejected within one collective, and undefined between the collectives of one
/// transaction, which may run in any order. Elements are aligned to their own size. Reductions are by `reduce`, in rank
/// order. Sums of bf16 and fp16 are computed in fp32 and rounded once, other sums in the type itself. Sends and
/// receives between two ranks match in the order of submission. Those of one transaction progress together, and only
/// the two ranks take part. In-place reduce_scatter leaves the other blocks of `input` unchanged. NCCL's reductions
/// have their own order and rounding, which differ between its algorithms.
struct Collective {
  Operation operation = Operation::barrier;  ///< The same on all ranks, except for send and receive.
  void const* input = nullptr;  ///< On the stream's device. Do not modify it before the stream has run the collective.
  void* output = nullptr;       ///< On the stream's device; the table says on which ranks it is written.
  std::int64_t count = 0;       ///< Elements as in the table, not bytes.
  Dtype dtype = Dtype::fp32;    ///< Dtype of input and output.
  int peer = 0;                 ///< The root, or the partner of send and receive.
  /// The operator of all_reduce, reduce_scatter and reduce; leave it at sum for the others.
  Reduce reduce = Reduce::sum;
  /// Only for reduce_scatter by sum of fp32, bf16 or fp16 elements, and not over NCCL: [count] in fp32, apart from
  /// `input`. The sum is written here without rounding, and `output` is null. Each rank may choose differently.
  float* sums = nullptr;
  /// The sum starts from the contents of `sums`: ((sums + element of rank 0) + element of rank 1) + ...
  bool accumulate = false;
  /// Reduce::premul_sum multiplies every element by it: the same finite number on all ranks, rounded to fp32 for
  /// elements of at most 32 bits; NCCL rounds it to the dtype. Leave it at 1 for other operators.
  double factor = 1;
};

/// The purpose of a transaction, for messages. The same on all ranks. The views must outlive the transaction's
/// execution.
struct Label {
  std::string_view purpose;  ///< "forward", "backward", "publish", "step". Messages show at most 23 characters.
  std::string_view unit;     ///< Messages show at most 47 characters.
};

/// How a communicator waits and checks. Must be the same on all ranks.
struct CommOptions {
  std::chrono::milliseconds timeout{600'000};  ///< Time limit of one collective; then abort, naming the missing ranks.
  bool check = false;  ///< Compare every transaction between ranks before it runs. `local` always does.

  /// For communicators split from now on: all-gathers within one machine use copy engines, if NCCL can. Other backends
  /// ignore it.
  bool copy_engine = false;
};

/// Memory registered with a communicator, until this object is destroyed.
class ZEROTH_EXPORT Registration {
 public:
  Registration() = default;
  Registration(Registration const&) = delete;
  Registration& operator=(Registration const&) = delete;
  virtual ~Registration() = default;
};

/// A fixed group of ranks. All ranks submit the same transactions in the same order, one thread at a time.
///
/// Errors: submit() throws ContractError for an invalid shape, before it enqueues anything. Later errors fail the
/// stream with PeerError on every rank of the group: a rank failed, left, timed out, or submitted something else (both
/// are named).
class ZEROTH_EXPORT Communicator {
 public:
  Communicator() = default;
  Communicator(Communicator const&) = delete;
  Communicator& operator=(Communicator const&) = delete;
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;                 ///< This rank, in [0, world()).
  [[nodiscard]] virtual int world() const noexcept = 0;                ///< Ranks of this group.
  [[nodiscard]] virtual int job_rank(int rank) const noexcept = 0;     ///< Rank of `rank` in the job, for messages.
  [[nodiscard]] virtual Transport transport() const noexcept = 0;      ///< The backend.
  [[nodiscard]] virtual std::string const& name() const noexcept = 0;  ///< In messages: "world", or split()'s name.
  [[nodiscard]] virtual FlightRecorder& recorder() noexcept = 0;       ///< This rank's last transactions.

  /// Enqueues `collectives` on `stream` as one transaction. It starts when `stream` reaches it; `stream` continues once
  /// no rank needs this rank's buffers. Copies the list. Allocates only if the list is the longest so far. Empty lists
  /// and zero counts are allowed, if they are the same on all ranks.
  void submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives);

  // Each of these submits one collective as a separate transaction; see Collective for shapes and `reduce`, and
  // submit(). For blocks that differ in length see zeroth/comm/uneven.hpp.

  /// The reduction over ranks, on all ranks: [count] to [count]. `factor` is premul_sum's: see Collective.
  void all_reduce(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                  Dtype dtype, Reduce reduce = Reduce::sum, double factor = 1);
  /// All ranks' inputs in rank order, on all ranks: [count] to [world * count].
  void all_gather(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                  Dtype dtype);
  /// The reduction over ranks; rank r gets block r: [world * count] to [count].
  void reduce_scatter(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                      Dtype dtype, Reduce reduce = Reduce::sum, double factor = 1);
  /// Copies `root`'s `input` to every rank's `output`: [count] to [count].
  void broadcast(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                 Dtype dtype, int root);
  /// The reduction over ranks, on `root`: [count] to [count]. `output` is ignored elsewhere.
  void reduce(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
              Dtype dtype, int root, Reduce reduce = Reduce::sum, double factor = 1);
  /// All ranks' inputs in rank order, on `root`: [count] to [world * count].
  void gather(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
              Dtype dtype, int root);
  /// Block r of `root`'s `input`, on rank r: [world * count] to [count].
  void scatter(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
               Dtype dtype, int root);
  /// Block r of each rank's input, on rank r, in rank order: [world * count] to [world * count].
  void all_to_all(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                  Dtype dtype);
  /// Sends [count] to rank `to`, which receives as many. The stream continues once `input` may change.
  void send(device::Stream& stream, Label const& label, void const* input, std::int64_t count, Dtype dtype, int to);
  /// Receives [count] from rank `from`, which sends as many.
  void receive(device::Stream& stream, Label const& label, void* output, std::int64_t count, Dtype dtype, int from);
  /// Blocks the host until all ranks have reached it.
  void barrier(device::Stream& stream, Label const& label);

  /// Returns a communicator of the ranks that pass the same `color`, ordered by `key`, then by rank; null for a
  /// negative color. Collective on this communicator; waits. Inherits options. `name`, at most 15 characters, labels
  /// messages.
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string const& name);

  /// Returns a communicator of the ranks `ranks` of this one, in that order, as MPI_Comm_create_group and torch's
  /// new_group(use_local_synchronization=True) do. Collective on these ranks alone, which pass the same list and name;
  /// waits for them. Groups without a rank in common may be made at the same time. Inherits options. `name` as in
  /// split().
  ///
  /// Throws ContractError if `ranks` is empty, names a rank twice or one that there is not, or lacks this rank;
  /// PeerError that names the missing ranks if not all have come within CommOptions::timeout. Then no rank has this
  /// group, the ones that come later throw too, and the job continues. Cost: a few messages of each rank to rank 0 of
  /// the job.
  [[nodiscard]] std::unique_ptr<Communicator> create_group(std::span<int const> ranks, std::string const& name);
  /// Waits until all ranks have called it, or `timeout` has passed, and returns the ranks that have not come, in order:
  /// an empty list if all have. The job continues: the program decides. A rank that comes late still finds the others'
  /// calls, and gets an empty list. Only hosts meet, not streams. Cost: a few messages of each rank to rank 0 of the
  /// job.
  [[nodiscard]] std::vector<int> monitored_barrier(std::chrono::milliseconds timeout);
  /// The store of the job, which all of its communicators share. Use it no longer than this communicator. Throws
  /// ContractError if this communicator belongs to no launched job.
  [[nodiscard]] KeyValueStore key_value_store();

  /// Registers memory, which speeds up transactions on it. Collective: all ranks pass memory of the same size. Waits.
  /// Destroy the Registration before the memory and the communicator. Null if it would not help: `memory` is not
  /// registrable(), or the backend does not need registration.
  [[nodiscard]] std::unique_ptr<Registration> register_memory(device::Memory const& memory);

  /// Why transactions of this communicator cannot be captured in graphs (device::Device::begin_capture()), for
  /// messages; empty if they can.
  [[nodiscard]] virtual std::string why_no_graphs() const;
  /// Calls `launch`, which enqueues graphs with captured transactions on `stream`, and watches them like one
  /// transaction: if they do not end within CommOptions::timeout, the job fails. Collective.
  void watch_graphs(device::Stream& stream, Label const& label, std::function<void()> const& launch);

  /// Applies to later transactions. Must be the same on all ranks.
  virtual void set_options(CommOptions const& options) = 0;
  /// Sets the scratch memory of staging_bytes(), which must stay valid until the communicator is destroyed.
  virtual void set_staging(std::span<std::byte> staging) = 0;
  /// Aborts every wait of every rank of the job, on this communicator and all related by split(): waiters throw
  /// PeerError with `reason`. Only the first reason counts. Any thread.
  virtual void abort(std::string const& reason) noexcept = 0;
  /// Why the job failed, by abort() or otherwise; nullopt while it has not. Any thread.
  [[nodiscard]] virtual std::optional<std::string> failure() const = 0;

 protected:
  /// The data with which ranks meet without a collective.
  struct Meetings {
    KeyValues* values = nullptr;           ///< The job's; null if it has none.
    std::uint64_t group = 0;               ///< The same on all ranks of this communicator, and unique to it.
    std::chrono::milliseconds timeout{0};  ///< The timeout of CommOptions.
  };

 private:
  virtual void do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) = 0;
  [[nodiscard]] virtual std::unique_ptr<Communicator> do_split(int color, int key, std::string const& name) = 0;
  [[nodiscard]] virtual std::unique_ptr<Registration> do_register(device::Memory const& /*memory*/) { return nullptr; }
  virtual void do_watch_graphs(device::Stream& stream, Label const& label, std::function<void()> const& launch);
  [[nodiscard]] virtual Meetings do_meetings() { return {}; }
  /// Makes the group, once all its ranks have come. `id` is the same on all of them, and unique.
  [[nodiscard]] virtual std::unique_ptr<Communicator> do_create_group(std::uint64_t /*id*/,
                                                                      std::span<int const> /*ranks*/,
                                                                      std::string const& /*name*/) {
    return nullptr;
  }
  [[nodiscard]] Meetings meetings(char const* call);

  std::map<std::uint64_t, std::uint64_t> groups_made_;  // how many, by the hash of ranks and name
  std::uint64_t barriers_ = 0;
};

}  // namespace zeroth::comm
