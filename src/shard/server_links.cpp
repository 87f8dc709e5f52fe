// SPDX-License-Identifier: Apache-2.0
#include "shard/server_links.hpp"

#include <algorithm>

namespace zeroth::shard {
namespace {

using comm::Operation;

// Ranks of a channel.
constexpr int worker = 0, server = 1;
// A program may do anything between its calls.
constexpr std::chrono::milliseconds any_time = std::chrono::hours{24 * 365};

void send(comm::Communicator& channel, device::Stream& stream, comm::Label const& label, void const* data,
          std::int64_t count, Dtype dtype) {
  comm::Collective const message{.operation = Operation::send,
                                 .input = data,
                                 .count = count,
                                 .dtype = dtype,
                                 .peer = channel.rank() == worker ? server : worker};
  channel.submit(stream, label, {&message, 1});
}

void receive(comm::Communicator& channel, device::Stream& stream, comm::Label const& label, void* data,
             std::int64_t count, Dtype dtype) {
  comm::Collective const message{.operation = Operation::receive,
                                 .output = data,
                                 .count = count,
                                 .dtype = dtype,
                                 .peer = channel.rank() == worker ? server : worker};
  channel.submit(stream, label, {&message, 1});
}

}  // namespace

ServerLinks::ServerLinks(comm::Communicator& all, int workers, comm::CommOptions const& options)
    : workers_{workers}, serves_{all.rank() >= workers}, is_first_{all.rank() == 0}, options_{options} {
  connect(all, all.world() - workers);
  for (auto const& peer : peers_) {
    peer.push->set_options(options);
    peer.pull->set_options(options);
  }
}

/// In each round a rank has at most one peer, and after all rounds it had each.
void ServerLinks::connect(comm::Communicator& all, int servers) {
  int const rounds = std::max(workers_, servers);
  int const mine = serves_ ? all.rank() - workers_ : all.rank();
  peers_.resize(static_cast<std::size_t>(serves_ ? workers_ : servers));
  for (int round = 0; round < rounds; ++round) {
    int const peer = serves_ ? (mine - round + rounds) % rounds : (mine + round) % rounds;
    bool const has_peer = peer < static_cast<int>(peers_.size());
    int const color = !has_peer ? -1 : serves_ ? mine : peer;
    int const key = serves_ ? server : worker;
    auto push = all.split(color, key, "push");
    auto pull = all.split(color, key, "pull");
    if (has_peer) {
      peers_[static_cast<std::size_t>(peer)] = {std::move(push), std::move(pull)};
    }
  }
}

void ServerLinks::tell(device::Stream& stream, Order const& order, std::span<std::byte const> more) {
  if (!is_first_) {
    return;
  }
  for (auto const& peer : peers_) {
    send(*peer.push, stream, {"order", ""}, &order, sizeof order, Dtype::byte);
    if (!more.empty()) {
      send(*peer.push, stream, {"order", ""}, more.data(), std::ssize(more), Dtype::byte);
    }
  }
}

Order ServerLinks::next_order(device::Stream& stream) {
  auto& channel = *peers_.front().push;
  auto patient = options_;
  patient.timeout = any_time;
  channel.set_options(patient);
  Order order;
  receive(channel, stream, {"order", ""}, &order, sizeof order, Dtype::byte);
  channel.set_options(options_);
  stream.synchronize();
  return order;
}

void ServerLinks::receive_more(device::Stream& stream, std::span<std::byte> more) {
  receive(*peers_.front().push, stream, {"order", ""}, more.data(), std::ssize(more), Dtype::byte);
  stream.synchronize();
}

void ServerLinks::push(device::Stream& stream, std::string_view unit, Part const& part, Elements const& from) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    send(*peers_[i].push, stream, {"push", unit}, from.at(part.slice(static_cast<int>(i))), part.shard_count,
         from.dtype);
  }
}

void ServerLinks::pull(device::Stream& stream, std::string_view unit, Part const& part, Elements const& to) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    receive(*peers_[i].pull, stream, {"pull", unit}, to.at(part.slice(static_cast<int>(i))), part.shard_count,
            to.dtype);
  }
}

void ServerLinks::add(device::Stream& stream, std::string_view unit, Part const& part, std::byte* to, Dtype dtype) {
  for (auto const& peer : peers_) {
    receive(*peer.push, stream, {"push", unit}, to, part.shard_count, dtype);
    to += part.shard_count * bytes_of(dtype);
  }
}

void ServerLinks::give(device::Stream& stream, std::string_view unit, Part const& part, std::byte const* from,
                       Dtype dtype) {
  for (auto const& peer : peers_) {
    send(*peer.pull, stream, {"pull", unit}, from, part.shard_count, dtype);
  }
}

}  // namespace zeroth::shard
