// SPDX-License-Identifier: Apache-2.0
/// What moves between workers and parameter servers.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shard/carrier.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::shard {

/// What the first worker tells all servers to do next. `bytes` bytes may follow it.
struct Order {
  enum class Kind : std::int64_t {
    add,  ///< A flat unit's gradients come from all workers: `first` is the unit, `second` says if it is the last time.
    step,     ///< Decide, update, and send parameters: `first` is the number of metrics, `second` the learning rate's
              ///< bits.
    norm,     ///< Sum what a step will sum: `first` is the number of metrics.
    norm_of,  ///< Sum the squares of a parameter's gradient: `first` is the parameter.
    read,     ///< Send a parameter's values: `first` is the parameter.
    write,    ///< Take a parameter's values, which follow: `first` is the parameter.
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

/// Two channels for each worker and server: one for gradients and orders, on the reduce stream, and one for parameters,
/// on the gather stream. A channel has two ranks, so no rank waits for another one than its peer. A flat unit has a
/// slice for each server.
///
/// Ranks go through units in one order, a worker through the servers in theirs, a server through the workers in theirs.
/// So whatever is first in the order of (unit, server, worker) can always go on.
class ServerLinks {
 public:
  /// Collective on `all`: workers, then servers; waits.
  ServerLinks(comm::Communicator& all, int workers, comm::CommOptions const& options);

  [[nodiscard]] int workers() const noexcept { return workers_; }
  [[nodiscard]] bool serves() const noexcept { return serves_; }

  // ---- on a worker ----
  /// Sends `order` if this is the first worker. It must stay valid until `stream` has passed.
  void tell(device::Stream& stream, Order const& order, std::span<std::byte const> more = {});
  /// Sends each server its slice of `part`, all of which is in `from`.
  void push(device::Stream& stream, std::string_view unit, Part const& part, Elements const& from);
  /// Receives the slice of each server into `to`, which has all of `part`.
  void pull(device::Stream& stream, std::string_view unit, Part const& part, Elements const& to);

  // ---- on a server ----
  /// Waits for the next order, for as long as it takes.
  [[nodiscard]] Order next_order(device::Stream& stream);
  /// Receives what follows an order. Waits.
  void receive_more(device::Stream& stream, std::span<std::byte> more);
  /// Receives this server's slice from each worker, one after another in `to`.
  void add(device::Stream& stream, std::string_view unit, Part const& part, std::byte* to, Dtype dtype);
  /// Sends each worker this server's slice.
  void give(device::Stream& stream, std::string_view unit, Part const& part, std::byte const* from, Dtype dtype);

 private:
  struct Peer {
    std::unique_ptr<comm::Communicator> push, pull;
  };
  void connect(comm::Communicator& all, int servers);

  int workers_;
  bool serves_, is_first_;
  comm::CommOptions options_;
  std::vector<Peer> peers_;  // the servers of a worker, the workers of a server
};

}  // namespace zeroth::shard
