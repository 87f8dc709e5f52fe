// SPDX-License-Identifier: Apache-2.0
#include "shard/server_links.hpp"

#include <algorithm>

namespace zeroth::shard {
namespace {

constexpr int rank_of_worker = 0, rank_of_server = 1;  // of a channel
// A program may do anything between its calls.
constexpr std::chrono::milliseconds any_time = std::chrono::hours{24 * 365};

/// The other rank of a channel.
int other(comm::Communicator const& channel) noexcept {
  return channel.rank() == rank_of_worker ? rank_of_server : rank_of_worker;
}

void send(comm::Communicator& channel, device::Stream& stream, comm::Label const& label, void const* data,
          std::int64_t count, Dtype dtype) {
  channel.send(stream, label, data, count, dtype, other(channel));
}

void receive(comm::Communicator& channel, device::Stream& stream, comm::Label const& label, void* data,
             std::int64_t count, Dtype dtype) {
  channel.receive(stream, label, data, count, dtype, other(channel));
}

}  // namespace

int ChannelSplits::rounds() const noexcept { return std::max(workers, servers); }

std::optional<int> ChannelSplits::peer(int rank, int round) const noexcept {
  bool const serves = rank >= workers;
  int const peer = serves ? (rank - workers - round + rounds()) % rounds() : (rank + round) % rounds();
  return peer < (serves ? workers : servers) ? std::optional{peer} : std::nullopt;
}

comm::SplitRequest ChannelSplits::request(int rank, int round) const noexcept {
  bool const serves = rank >= workers;
  auto const with = peer(rank, round);
  return {!with ? -1 : serves ? rank - workers : *with, serves ? rank_of_server : rank_of_worker};
}

ServerLinks::ServerLinks(comm::Communicator& all, int workers, bool is_stale, comm::CommOptions const& options)
    : workers_{workers},
      serves_{all.rank() >= workers},
      is_first_{all.rank() == 0},
      is_stale_{is_stale},
      options_{options} {
  connect(all, all.world() - workers);
  for (auto const& peer : peers_) {
    peer.push->set_options(options);
    peer.pull->set_options(options);
  }
}

void ServerLinks::connect(comm::Communicator& all, int servers) {
  ChannelSplits const splits{workers_, servers};
  peers_.resize(static_cast<std::size_t>(serves_ ? workers_ : servers));
  for (int round = 0; round < splits.rounds(); ++round) {
    auto const [color, key] = splits.request(all.rank(), round);
    auto push = all.split(color, key, "push");
    auto pull = all.split(color, key, "pull");
    if (auto const peer = splits.peer(all.rank(), round)) {
      peers_[static_cast<std::size_t>(*peer)] = {std::move(push), std::move(pull)};
    }
  }
}

void ServerLinks::tell(device::Stream& stream, Order const& order, std::span<std::byte const> more) {
  if (is_first_) {
    send_order(stream, order, more);
  }
}

void ServerLinks::tell_of_own(device::Stream& stream, Order const& order, std::span<std::byte const> more) {
  if (is_first_ || is_stale_) {
    send_order(stream, order, more);
  }
}

void ServerLinks::send_order(device::Stream& stream, Order const& order, std::span<std::byte const> more) {
  for (auto const& peer : peers_) {
    send(*peer.push, stream, {"order", ""}, &order, sizeof order, Dtype::byte);
    if (!more.empty()) {
      send(*peer.push, stream, {"order", ""}, more.data(), std::ssize(more), Dtype::byte);
    }
  }
}

void ServerLinks::make_streams(device::Device& device, std::size_t flats) {
  for (auto& peer : peers_) {
    peer.stream = device.make_stream("pull", device::Overlap::on);
    peer.pulled.resize(flats);
    std::ranges::generate(peer.pulled, [&] { return device.make_event(); });
    peer.noted = device.make_event();
  }
}

void ServerLinks::end_streams() noexcept {
  for (auto& peer : peers_) {
    peer.stream.reset();
    peer.pulled.clear();
    peer.noted.reset();
  }
}

void ServerLinks::post_notes(std::span<PullNote> notes) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    auto const& peer = peers_[i];
    receive(*peer.pull, *peer.stream, {"pull", ""}, &notes[i], sizeof(PullNote), Dtype::byte);
    peer.stream->record(*peer.noted);
  }
}

void ServerLinks::await_notes(device::Stream& stream) {
  for (auto const& peer : peers_) {
    stream.wait(*peer.noted);
  }
}

void ServerLinks::post_pull(FlatId flat, std::string_view unit, Part const& part, Elements const& to) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    auto const& peer = peers_[i];
    receive(*peer.pull, *peer.stream, {"pull", unit}, to.at(part.slice(static_cast<int>(i))), part.shard_count,
            to.dtype);
    peer.stream->record(*peer.pulled[flat]);
  }
}

void ServerLinks::await_pull(device::Stream& stream, FlatId flat) {
  for (auto const& peer : peers_) {
    stream.wait(*peer.pulled[flat]);
  }
}

Order ServerLinks::next_order(device::Stream& stream) {
  Order order;
  receive_order(0, stream, order);
  stream.synchronize();
  return order;
}

void ServerLinks::receive_more(device::Stream& stream, std::span<std::byte> more) {
  receive_more_of(0, stream, more);
  stream.synchronize();
}

void ServerLinks::receive_order(int worker, device::Stream& stream, Order& order) {
  auto& channel = *peer(worker).push;
  auto patient = options_;
  patient.timeout = any_time;
  channel.set_options(patient);
  receive(channel, stream, {"order", ""}, &order, sizeof order, Dtype::byte);
  channel.set_options(options_);
}

void ServerLinks::receive_more_of(int worker, device::Stream& stream, std::span<std::byte> more) {
  receive(*peer(worker).push, stream, {"order", ""}, more.data(), std::ssize(more), Dtype::byte);
}

void ServerLinks::take(int worker, device::Stream& stream, std::string_view unit, Part const& part, std::byte* to,
                       Dtype dtype) {
  receive(*peer(worker).push, stream, {"push", unit}, to, part.shard_count, dtype);
}

void ServerLinks::give_note(int worker, device::Stream& stream, PullNote const& note) {
  send(*peer(worker).pull, stream, {"pull", ""}, &note, sizeof note, Dtype::byte);
}

void ServerLinks::give_to(int worker, device::Stream& stream, std::string_view unit, Part const& part,
                          std::byte const* from, Dtype dtype) {
  send(*peer(worker).pull, stream, {"pull", unit}, from, part.shard_count, dtype);
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
  for (int worker = 0; worker < workers_; ++worker) {
    take(worker, stream, unit, part, to, dtype);
    to += part.shard_count * bytes_of(dtype);
  }
}

void ServerLinks::give(device::Stream& stream, std::string_view unit, Part const& part, std::byte const* from,
                       Dtype dtype) {
  for (int worker = 0; worker < workers_; ++worker) {
    give_to(worker, stream, unit, part, from, dtype);
  }
}

}  // namespace zeroth::shard
