// SPDX-License-Identifier: Apache-2.0
/// The links between workers and parameter servers.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/group.hpp"
#include "shard/carrier.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// The order of the first worker to all servers. `bytes` bytes may follow it.
struct Order {
  enum class Kind : std::int64_t {
    add,  ///< A flat unit's gradients come from all workers: `first` is the unit, `second` says if it is the last time.
    step,      ///< Decide, update, and send parameters: `first` is the number of metrics, `second` the learning rate's
               ///< bits.
    norm,      ///< Sum what a step will sum: `first` is the number of metrics.
    norm_of,   ///< Sum the squares of a parameter's gradient: `first` is the parameter.
    read,      ///< Send a parameter's values: `first` is the parameter.
    write,     ///< Take a parameter's values, which follow: `first` is the parameter.
    swap_ema,  ///< Exchange masters with their averages, and send parameters.
    save_weights,
    load_weights,
    save,
    restore,
    restore_latest,
    claim,
    end  ///< The engine of the workers has ended.
  };
  static constexpr std::int64_t no_rate = -1;  ///< For `second` of a step: the schedule says the learning rate.
  Kind kind = Kind::end;
  std::int64_t first = 0, second = 0, bytes = 0;
};

/// A server's message to a worker with new parameters, if workers may be stale. Pushes count from the engine's start.
struct PullNote {
  std::int64_t pushed_by_all = 0;  ///< How many times every worker has pushed.
  std::int64_t stop_at = 0;        ///< After which of their pushes workers stop; 0: a stop was not asked for.
};

/// Splits of a communicator of `workers` workers and then `servers` servers, each of which makes one kind of channels.
struct ChannelSplits {
  int workers = 0, servers = 0;
  /// In a round a rank has at most one peer, and after all rounds it had each. A round has a split for pushes, and one
  /// for pulls.
  [[nodiscard]] int rounds() const noexcept;
  /// The peer of `rank` in `round`, counted among workers or servers; nullopt without one.
  [[nodiscard]] std::optional<int> peer(int rank, int round) const noexcept;
  [[nodiscard]] comm::SplitRequest request(int rank, int round) const noexcept;
};

/// Two channels for each worker and server: one for gradients and orders, on the reduce stream, and one for parameters,
/// on the gather stream. A channel has two ranks, so no rank waits for another one than its peer. A flat unit has a
/// slice for each server.
///
/// All ranks process units in the same order; for each unit a worker takes servers in their order, and a server takes
/// workers in theirs. So the first unfinished transfer in the order of (unit, server, worker) can always proceed.
class ServerLinks {
 public:
  /// Collective on `all`: workers, then servers; waits. `is_stale`: workers may be.
  ServerLinks(comm::Communicator& all, int workers, bool is_stale, comm::CommOptions const& options);

  [[nodiscard]] int workers() const noexcept { return workers_; }
  [[nodiscard]] int servers() const noexcept { return serves_ ? 0 : static_cast<int>(peers_.size()); }
  [[nodiscard]] bool serves() const noexcept { return serves_; }
  [[nodiscard]] bool is_stale() const noexcept { return is_stale_; }

  // ---- on a worker ----
  /// Sends `order` if this is the first worker. It must stay valid until `stream` has passed.
  void tell(device::Stream& stream, Order const& order, std::span<std::byte const> more = {});
  /// Sends an order about this worker's own gradients: like tell(), but if workers may be stale, each of them does.
  void tell_of_own(device::Stream& stream, Order const& order, std::span<std::byte const> more = {});
  /// Sends each server its slice of `part`, all of which is in `from`.
  void push(device::Stream& stream, std::string_view unit, Part const& part, Elements const& from);
  /// Receives the slice of each server into `to`, which has all of `part`.
  void pull(device::Stream& stream, std::string_view unit, Part const& part, Elements const& to);

  // ---- on a worker that may be stale ----
  /// Makes a stream for pulls from each server, and events for all flat units.
  void make_streams(device::Device& device, std::size_t flats);
  void end_streams() noexcept;
  /// Receive a note and slices of each server, whichever answers first: a server that waits until this rank receives
  /// takes no pushes meanwhile, for which another server may be waiting. So all is posted before anything is awaited.
  void post_notes(std::span<PullNote> notes);
  /// Makes `stream` wait for the notes, which come even if no parameter does.
  void await_notes(device::Stream& stream);
  void post_pull(FlatId flat, std::string_view unit, Part const& part, Elements const& to);
  /// Makes `stream` wait for what was posted of `flat`.
  void await_pull(device::Stream& stream, FlatId flat);

  // ---- on a server ----
  /// Waits for the next order, for as long as it takes.
  [[nodiscard]] Order next_order(device::Stream& stream);
  /// Receives what follows an order. Waits.
  void receive_more(device::Stream& stream, std::span<std::byte> more);
  /// Receives this server's slice from each worker, one after another in `to`.
  void add(device::Stream& stream, std::string_view unit, Part const& part, std::byte* to, Dtype dtype);
  /// Sends each worker this server's slice.
  void give(device::Stream& stream, std::string_view unit, Part const& part, std::byte const* from, Dtype dtype);

  // ---- on a server of workers that may be stale: with one of them ----
  /// Receives its next order, for as long as it takes. Does not wait.
  void receive_order(int worker, device::Stream& stream, Order& order);
  void receive_more_of(int worker, device::Stream& stream, std::span<std::byte> more);
  /// Receives this server's slice.
  void take(int worker, device::Stream& stream, std::string_view unit, Part const& part, std::byte* to, Dtype dtype);
  void give_note(int worker, device::Stream& stream, PullNote const& note);
  void give_to(int worker, device::Stream& stream, std::string_view unit, Part const& part, std::byte const* from,
               Dtype dtype);

 private:
  struct Peer {
    std::unique_ptr<comm::Communicator> push, pull;
    ById<FlatId, std::unique_ptr<device::Event>> pulled = {};
    std::unique_ptr<device::Event> noted = {};
    std::unique_ptr<device::Stream> stream = {};  ///< For pulls that are posted.
  };
  void connect(comm::Communicator& all, int servers);
  void send_order(device::Stream& stream, Order const& order, std::span<std::byte const> more);
  [[nodiscard]] Peer& peer(int index) noexcept { return peers_[static_cast<std::size_t>(index)]; }

  int workers_;
  bool serves_, is_first_, is_stale_;
  comm::CommOptions options_;
  std::vector<Peer> peers_;  // the servers of a worker, the workers of a server
};

}  // namespace zeroth::shard
