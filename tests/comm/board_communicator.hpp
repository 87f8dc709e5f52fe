// SPDX-License-Identifier: Apache-2.0
/// A minimal transport on hosts: ranks are threads that leave bytes on a board for each other.
#pragma once
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "comm/barrier.hpp"
#include "comm/describe.hpp"
#include "comm/host_communicator.hpp"
#include "comm/peer_status_tracker.hpp"
#include "device/rank_fold.hpp"

namespace zeroth::comm::conformance {

using Bytes = std::vector<std::byte>;

/// The board of one communicator, shared by its ranks.
struct Board {
  explicit Board(int world) : entrance{world}, exit{world}, slots(static_cast<std::size_t>(world)) {}
  Barrier entrance, exit;
  std::vector<Bytes> slots;  // by rank: written before the entrance, read before the exit
  std::mutex mutex;
  std::condition_variable posted;
  std::map<std::tuple<int, int, int>, std::deque<Bytes>> mail;  // by sender, receiver, tag
};

class BoardJob;
/// The state of one job, shared by its ranks.
struct BoardSite {
  std::mutex mutex;
  std::optional<JobFailure> failure;
  std::optional<JobFailure> verdict;  // the job's reason, if it differs from that of the reporting rank
  std::vector<BoardJob*> jobs;
  std::map<std::uint64_t, std::shared_ptr<Board>> boards;
};

class BoardJob final : public HostJob {
 public:
  BoardJob(BoardSite& site, int rank, int world)
      : site_{site}, rank_{rank}, recorder_{std::make_shared<FlightRecorder>(rank, world)} {}
  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] std::shared_ptr<FlightRecorder> const& recorder() const noexcept override { return recorder_; }
  void fail(int origin, std::string const& reason) noexcept override {
    std::scoped_lock const lock{site_.mutex};
    site_.failure = site_.failure.value_or(JobFailure{origin, reason});
  }
  void report_timeout(std::string const& reason, std::vector<PeerStatus> const& /*places*/) noexcept override {
    auto const heard = site_.verdict.value_or(JobFailure{rank_, reason});
    fail(heard.origin, heard.reason);
  }
  [[nodiscard]] std::optional<JobFailure> failure() const override {
    std::scoped_lock const lock{site_.mutex};
    return site_.failure;
  }
  void enter(std::uint64_t communicator, std::atomic<std::uint64_t> const& begun) override {
    peer_statuses_.enter(communicator, begun);
  }
  void leave(std::uint64_t communicator, std::vector<int> const& ranks, std::uint64_t last) override {
    peer_statuses_.leave(communicator, ranks.size() - 1);
    for (int const rank : ranks) {
      if (rank != rank_) {
        site_.jobs[static_cast<std::size_t>(rank)]->peer_statuses_.note_leaver(communicator, {rank_, last});
      }
    }
  }
  [[nodiscard]] std::vector<Leaver> who_left(std::uint64_t communicator) const override {
    return peer_statuses_.who_left(communicator);
  }
  [[nodiscard]] std::vector<PeerStatus> ask_where(std::uint64_t communicator, std::vector<int> const& ranks) override {
    std::vector<PeerStatus> places;
    for (int const rank : ranks) {
      auto const& other = *site_.jobs[static_cast<std::size_t>(rank)];
      places.push_back({rank, true, other.peer_statuses_.begun(communicator), describe_last(*other.recorder_)});
    }
    return places;
  }
  [[nodiscard]] std::shared_ptr<Board> board_of(Group const& group) {
    std::scoped_lock const lock{site_.mutex};
    auto& board = site_.boards[group.id];
    board = board == nullptr ? std::make_shared<Board>(group.world()) : board;
    return board;
  }

 private:
  BoardSite& site_;
  int rank_;
  std::shared_ptr<FlightRecorder> recorder_;
  PeerStatusTracker peer_statuses_;
};

class BoardCommunicator final : public HostCommunicator {
 public:
  BoardCommunicator(BoardJob& job, Group const& group, CommOptions const& options)
      : HostCommunicator{job, group, options}, job_{job}, board_{job.board_of(group)} {}
  ~BoardCommunicator() override { end(); }
  [[nodiscard]] Transport transport() const noexcept override { return Transport::local; }

 private:
  enum Tag : int { content, from_senders, from_receivers };

  [[nodiscard]] std::int64_t staging_for(Collective const& /*collective*/) const noexcept override { return 0; }
  void exchange(void const* mine, void* all, std::int64_t bytes) override {
    show(mine, bytes, [&] { copy_slots(all, 0, bytes); });
  }
  void run(Collective const& collective, std::span<std::byte> /*staging*/) override {
    std::int64_t const bytes = collective.count * bytes_of(collective.dtype);
    bool const is_root = collective.peer == rank();
    bool const is_rooted = collective.operation == Operation::broadcast || collective.operation == Operation::scatter;
    bool const by_receiver = collective.operation == Operation::reduce_scatter ||
                             collective.operation == Operation::scatter ||
                             collective.operation == Operation::all_to_all;
    show(collective.input, is_rooted && !is_root ? 0 : bytes * (by_receiver ? world() : 1), [&] {
      switch (collective.operation) {
        case Operation::all_reduce: return sum(collective, 0);
        case Operation::reduce: return is_root ? sum(collective, 0) : void();
        case Operation::reduce_scatter: return sum(collective, rank() * bytes);
        case Operation::all_gather: return copy_slots(collective.output, 0, bytes);
        case Operation::gather: return is_root ? copy_slots(collective.output, 0, bytes) : void();
        case Operation::all_to_all: return copy_slots(collective.output, rank() * bytes, bytes);
        case Operation::broadcast: return copy(collective.output, collective.peer, 0, bytes);
        case Operation::scatter: return copy(collective.output, collective.peer, rank() * bytes, bytes);
        default: return;
      }
    });
  }
  void start_messages(std::span<Collective const> messages) override {
    started_ = messages;
    for (auto const& each : messages) {
      if (each.operation == Operation::send) {
        post(each.peer, content, each.input, each.count * bytes_of(each.dtype));
      }
    }
  }
  void await_messages() override {
    for (auto const& each : started_) {
      if (each.operation == Operation::receive) {
        take(each.peer, content, each.output);
      }
    }
  }
  void exchange_with_peers(std::span<Collective const> all, std::byte const* sent, std::byte* received,
                           std::int64_t bytes) override {
    auto const sends = [&](std::size_t i) { return all[i].operation == Operation::send; };
    for (std::size_t i = 0; i < all.size(); ++i) {
      post(all[i].peer, sends(i) ? from_senders : from_receivers, sent + static_cast<std::int64_t>(i) * bytes, bytes);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      take(all[i].peer, sends(i) ? from_receivers : from_senders, received + static_cast<std::int64_t>(i) * bytes);
    }
  }
  [[nodiscard]] std::unique_ptr<Communicator> make_part(SplitRequest const& /*request*/, Group part) override {
    return part.job_ranks.empty() ? nullptr : std::make_unique<BoardCommunicator>(job_, part, options());
  }
  [[nodiscard]] std::unique_ptr<Communicator> make_group(std::span<int const> /*ranks*/, Group part) override {
    return std::make_unique<BoardCommunicator>(job_, part, options());
  }

  /// `read` sees the bytes of all ranks.
  template <class Read>
  void show(void const* mine, std::int64_t bytes, Read const& read) {
    auto const* const begin = static_cast<std::byte const*>(mine);
    board_->slots[static_cast<std::size_t>(rank())].assign(begin, begin + bytes);
    meet(board_->entrance, ++number_);
    read();
    meet(board_->exit, number_);
  }
  void meet(Barrier& barrier, std::uint64_t number) {
    barrier.arrive(number);
    await([&](Clock::time_point until) { return barrier.wait_until(number, until); });
  }
  void copy(void* to, int from, std::int64_t at, std::int64_t bytes) const {
    if (bytes > 0) {
      std::memcpy(to, board_->slots[static_cast<std::size_t>(from)].data() + at, static_cast<std::size_t>(bytes));
    }
  }
  void copy_slots(void* to, std::int64_t at, std::int64_t bytes) const {
    for (int from = 0; from < world(); ++from) {
      copy(static_cast<std::byte*>(to) + from * bytes, from, at, bytes);
    }
  }
  void sum(Collective const& collective, std::int64_t at) const {
    std::vector<void const*> inputs;
    for (auto const& slot : board_->slots) {
      inputs.push_back(slot.data() + at);
    }
    device::rank_fold(collective.reduce, &collective.output, 1, inputs.data(), world(), collective.dtype, 0,
                      collective.count, collective.factor);
  }
  void post(int to, Tag tag, void const* data, std::int64_t bytes) {
    auto const* const begin = static_cast<std::byte const*>(data);
    std::scoped_lock const lock{board_->mutex};
    board_->mail[{rank(), to, tag}].emplace_back(begin, begin + bytes);
    board_->posted.notify_all();
  }
  void take(int from, Tag tag, void* data) {
    std::unique_lock lock{board_->mutex};
    auto& box = board_->mail[{from, rank(), tag}];
    await(
        [&](Clock::time_point until) { return board_->posted.wait_until(lock, until, [&] { return !box.empty(); }); });
    if (!box.front().empty()) {
      std::memcpy(data, box.front().data(), box.front().size());
    }
    box.pop_front();
  }

  BoardJob& job_;
  std::shared_ptr<Board> board_;
  std::uint64_t number_ = 0;
  std::span<Collective const> started_;
};

/// A job of `world` ranks, as long as this lives.
class BoardRanks {
 public:
  explicit BoardRanks(int world, std::optional<JobFailure> const& verdict = {}) {
    site_.verdict = verdict;
    for (int rank = 0; rank < world; ++rank) {
      jobs_.push_back(std::make_unique<BoardJob>(site_, rank, world));
      site_.jobs.push_back(jobs_.back().get());
    }
  }
  [[nodiscard]] std::vector<std::unique_ptr<Communicator>> communicators() {
    std::vector<std::unique_ptr<Communicator>> all;
    for (auto const& job : jobs_) {
      all.push_back(std::make_unique<BoardCommunicator>(*job, whole_job(0, job->rank(), static_cast<int>(jobs_.size())),
                                                        CommOptions{}));
    }
    return all;
  }

 private:
  BoardSite site_;
  std::vector<std::unique_ptr<BoardJob>> jobs_;
};

}  // namespace zeroth::comm::conformance
