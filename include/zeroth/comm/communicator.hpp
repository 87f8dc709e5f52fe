// SPDX-License-Identifier: Apache-2.0
/// Collectives among a fixed group of ranks, in stream order. Backends: local (threads), mpi, nccl, tcp.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "zeroth/comm/transport.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/core/reduce.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::comm {

class FlightRecorder;

/// What a collective does; see Collective for shapes.
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
/// As it is written here, for messages and records.
[[nodiscard]] ZEROTH_EXPORT std::string_view name_of(Operation operation) noexcept;

/// What a backward pass does where forward did `operation`, by sums and with the same root: the adjoint of the linear
/// map from all ranks' inputs to all ranks' outputs. Broadcast and reduce, scatter and gather, all-gather and
/// reduce-scatter, send and receive are each other's; all-reduce, all-to-all and barrier their own.
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
/// Any other overlap of memory is refused within one collective and undefined between those of one transaction: they
/// may run in any order. Elements are aligned to their own size. Reductions are by `reduce`, in rank order; sums are in
/// fp32, rounded once, for bf16 and fp16, and in the type itself otherwise. Sends and receives between two ranks match
/// in the order in which they were submitted; those of one transaction progress together, and only the two ranks take
/// part. In-place reduce_scatter leaves the other blocks of `input` untouched. NCCL reduces in an order and with
/// roundings of its own, which differ between its algorithms.
struct Collective {
  Operation operation = Operation::barrier;  ///< The same on all ranks, but for send and receive.
  void const* input = nullptr;               ///< On the stream's device; left alone until the stream is through.
  void* output = nullptr;                    ///< On the stream's device; the table says on which ranks it is written.
  std::int64_t count = 0;                    ///< Elements, not bytes: the table says of what.
  Dtype dtype = Dtype::fp32;                 ///< Of input and output.
  int peer = 0;                              ///< Root, or the partner of send and receive.
  /// Of all_reduce, reduce_scatter and reduce; the others leave it at sum.
  Reduce reduce = Reduce::sum;
  /// For reduce_scatter by sum of fp32, bf16 or fp16 elements, other than by NCCL: [count] in fp32, apart from `input`,
  /// where the sum goes instead of to `output`, which is null. It is not rounded. Each rank chooses for itself.
  float* sums = nullptr;
  /// The sum begins with what `sums` holds: ((sums + element of rank 0) + element of rank 1) + ...
  bool accumulate = false;
};

/// What a transaction is for, in messages. All ranks give the same. Views that outlive the transaction's execution.
struct Label {
  std::string_view purpose;  ///< "forward", "backward", "publish", "step"; at most 23 characters are shown
  std::string_view unit;     ///< At most 47 characters are shown.
};

/// How a communicator waits and checks. The same on all ranks.
struct CommOptions {
  std::chrono::milliseconds timeout{600'000};  ///< After this long in one collective: abort, and say who was missing.
  bool check = false;        ///< Compare every transaction among the ranks before it runs. `local` always does.
  bool copy_engine = false;  ///< Of communicators split from now on: all-gathers inside one machine by copy engines,
                             ///< where NCCL can. The other backends have none.
};

/// Memory that a communicator knows, as long as this lives.
class ZEROTH_EXPORT Registration {
 public:
  Registration() = default;
  Registration(Registration const&) = delete;
  Registration& operator=(Registration const&) = delete;
  virtual ~Registration() = default;
};

/// A fixed group of ranks. Every rank submits the same transactions in the same order. One thread at a time submits.
///
/// Errors: ContractError from submit() for a shape that is wrong, before anything is enqueued. What happens later fails
/// the stream with PeerError, on every rank of the group: a rank that failed, left, does something else (both are
/// named), or did not come within the timeout.
class ZEROTH_EXPORT Communicator {
 public:
  Communicator() = default;
  Communicator(Communicator const&) = delete;
  Communicator& operator=(Communicator const&) = delete;
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;              ///< This one, in [0, world()).
  [[nodiscard]] virtual int world() const noexcept = 0;             ///< Ranks of this group.
  [[nodiscard]] virtual int job_rank(int rank) const noexcept = 0;  ///< Of rank `rank` here, in messages: in the job.
  [[nodiscard]] virtual Transport transport() const noexcept = 0;   ///< Which backend this is.
  [[nodiscard]] virtual std::string const& name() const noexcept = 0;  ///< In messages: "world", or what split() got.
  [[nodiscard]] virtual FlightRecorder& recorder() noexcept = 0;       ///< Of this rank's last transactions on it.

  /// Enqueues `collectives` as one transaction on `stream`: nothing of it starts before the stream reaches it, and the
  /// stream goes on when nobody needs this rank's buffers any more. The list is copied. No allocation once the longest
  /// list has been seen. Empty transactions and counts of zero are allowed, the same on all ranks.
  void submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives);

  // One collective as a transaction of its own; see Collective for shapes, and submit() for all else.

  /// The sum over ranks, on all ranks: [count] to [count].
  void all_reduce(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                  Dtype dtype);
  /// All ranks' inputs in rank order, on all ranks: [count] to [world * count].
  void all_gather(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                  Dtype dtype);
  /// Of the sum over ranks, block r on rank r: [world * count] to [count].
  void reduce_scatter(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                      Dtype dtype);
  /// What `root` has in `input`, in `output` of all ranks: [count] to [count].
  void broadcast(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
                 Dtype dtype, int root);
  /// All ranks' inputs in rank order, on `root`: [count] to [world * count] there.
  void gather(device::Stream& stream, Label const& label, void const* input, void* output, std::int64_t count,
              Dtype dtype, int root);
  /// An all_to_all of blocks that differ: `send_counts[r]` elements go to rank r, from where the ones before end in
  /// `input`, and `receive_counts[r]` come from it, in rank order, to `output`; both are [world], and what r sends is
  /// what this rank receives of it. One transaction of sends and receives, which every rank submits; the lists are
  /// copied. Its adjoint is itself, with the lists exchanged.
  void all_to_all_v(device::Stream& stream, Label const& label, void const* input,
                    std::span<std::int64_t const> send_counts, void* output,
                    std::span<std::int64_t const> receive_counts, Dtype dtype);
  /// Waits on the host until all ranks are here.
  void barrier(device::Stream& stream, Label const& label);

  /// A communicator of the ranks that give the same `color`, ordered by `key`, then by rank. Collective on this one;
  /// waits. Null for a negative color. Inherits options. `name` labels messages, at most 15 characters.
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string const& name);

  /// Makes memory known that many transactions will be on, so that they may be faster. Collective: all ranks give as
  /// many bytes, which outlive what is returned; that ends before the communicator. Waits. Null where nothing is
  /// gained: memory that is not registrable(), or a backend that needs no such thing.
  [[nodiscard]] std::unique_ptr<Registration> register_memory(device::Memory const& memory);

  /// Applies to transactions submitted from now on. The same on all ranks.
  virtual void set_options(CommOptions const& options) = 0;
  /// Memory for staging_bytes(), which the caller keeps until the communicator ends.
  virtual void set_staging(std::span<std::byte> staging) = 0;
  /// Ends every wait of every rank of the job, on all communicators split from one: they throw PeerError with `reason`.
  /// Any thread. Only the first reason counts.
  virtual void abort(std::string const& reason) noexcept = 0;
  /// Why the job ended before its time, by abort() or otherwise; empty while it goes on. Any thread.
  [[nodiscard]] virtual std::optional<std::string> failure() const = 0;

 private:
  virtual void do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) = 0;
  [[nodiscard]] virtual std::unique_ptr<Communicator> do_split(int color, int key, std::string const& name) = 0;
  [[nodiscard]] virtual std::unique_ptr<Registration> do_register(device::Memory const& /*memory*/) { return nullptr; }
};

}  // namespace zeroth::comm
