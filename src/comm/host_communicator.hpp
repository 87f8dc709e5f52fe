// SPDX-License-Identifier: Apache-2.0
/// Common code of transports whose ranks are processes and whose hosts do the work: the queue of transactions, their
/// comparison among ranks, the waits, and the error of a wait that cannot end.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/group.hpp"
#include "comm/host_job.hpp"
#include "comm/transaction.hpp"
#include "core/counter.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// Transactions run one after another, on the threads of their streams, so that all ranks start the same operations of
/// the transport in the same order. A transport implements transport() and the private functions below. They run inside
/// a transaction, one at a time, and wait by await(). Its destructor calls end() first.
class HostCommunicator : public Communicator {
 public:
  [[nodiscard]] int rank() const noexcept final { return group_.rank; }
  [[nodiscard]] int world() const noexcept final { return group_.world(); }
  [[nodiscard]] int job_rank(int rank) const noexcept final { return group_.job_rank(rank); }
  [[nodiscard]] std::string const& name() const noexcept final { return group_.name; }
  [[nodiscard]] FlightRecorder& recorder() noexcept final { return *job_.recorder(); }
  void set_options(CommOptions const& options) final;
  void set_staging(std::span<std::byte> staging) final { staging_ = staging; }
  void abort(std::string const& reason) noexcept final { job_.fail(job_.rank(), reason); }
  [[nodiscard]] std::optional<std::string> failure() const final {
    auto const failure = job_.failure();
    return failure ? std::optional{failure->reason} : std::nullopt;
  }

 protected:
  /// `job` must outlive this.
  HostCommunicator(HostJob& job, Group group, CommOptions const& options);
  /// Waits until nothing runs here any more. Ranks that wait for this one then fail soon.
  void end();
  [[nodiscard]] CommOptions const& options() const noexcept { return options_; }

  /// Calls `wait_until(deadline)`, which returns by then, until it returns true. Throws PeerError if the wait cannot
  /// end: the job has failed, an awaited rank has left, or the time is up.
  template <class WaitUntil>
  void await(WaitUntil const& wait_until) {
    auto const begin = Clock::now();
    auto const deadline = begin + current_->timeout;
    while (!wait_until(std::min(deadline, Clock::now() + poll_interval))) {
      expect_running();
      if (auto const leaver = find_leaver()) {
        if (wait_until(Clock::now() + 10 * poll_interval)) {  // its last messages may still be in flight
          return;
        }
        fail_without(*leaver);
      }
      if (Clock::now() >= deadline || job_.in_timeout_query()) {
        time_out(begin);
      }
    }
  }

 private:
  /// Bytes of staging that `collective` needs. Called on the submitting thread.
  [[nodiscard]] virtual std::int64_t staging_for(Collective const& collective) const noexcept = 0;
  /// Gathers `bytes`, a few, of every rank in rank order.
  virtual void exchange(void const* mine, void* all, std::int64_t bytes) = 0;
  /// For each of `messages`, sender and receiver exchange `bytes`: from `sent`, into `received`.
  virtual void exchange_with_peers(std::span<Collective const> messages, std::byte const* sent, std::byte* received,
                                   std::int64_t bytes) = 0;
  /// Runs one collective of all ranks.
  virtual void run(Collective const& collective, std::span<std::byte> staging) = 0;
  /// Starts sends and receives, all at once. They must stay valid until await_messages() returns.
  virtual void start_messages(std::span<Collective const> messages) = 0;
  virtual void await_messages() = 0;
  /// Makes the communicator of `part`, to which a split assigns this rank; null if it has no ranks. Collective on this
  /// one.
  [[nodiscard]] virtual std::unique_ptr<Communicator> make_part(SplitRequest const& request, Group part) = 0;
  /// Makes the communicator of `part`, whose ranks are `ranks` of this one. Collective on `part`; all its ranks are
  /// here. Not inside a transaction.
  [[nodiscard]] virtual std::unique_ptr<Communicator> make_group(std::span<int const> ranks, Group part) = 0;
  /// Whether this transport gains from registered memory; the same on all ranks.
  [[nodiscard]] virtual bool wants_memory() const noexcept { return false; }
  /// Registers `memory`. Collective.
  [[nodiscard]] virtual std::unique_ptr<Registration> make_known(device::Memory const& /*memory*/) { return nullptr; }

  static constexpr std::chrono::milliseconds poll_interval{10};

  void do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) final;
  [[nodiscard]] std::unique_ptr<Communicator> do_split(int color, int key, std::string const& name) final;
  [[nodiscard]] std::unique_ptr<Registration> do_register(device::Memory const& memory) final;
  [[nodiscard]] Meetings do_meetings() final { return {job_.key_values(), group_.id, options_.timeout}; }
  [[nodiscard]] std::unique_ptr<Communicator> do_create_group(std::uint64_t id, std::span<int const> ranks,
                                                              std::string const& name) final;
  [[nodiscard]] std::span<std::byte> find_staging(Label const& label, std::span<Collective const> collectives);

  // on the stream's thread
  template <class Work>
  void in_order(std::uint32_t ticket, Transaction& transaction, Work const& work);
  void await_ticket(std::uint32_t ticket, Transaction const& transaction);
  void run_all(Transaction const& transaction, bool check, std::span<std::byte> staging);
  void compare(Transaction const& transaction, SplitRequest const& request);
  void compare_messages(Transaction const& transaction);
  void expect_running();
  [[nodiscard]] std::vector<int> awaited() const;
  [[nodiscard]] std::optional<int> find_leaver() const;
  [[noreturn]] void fail_without(int job_rank);
  [[noreturn]] void time_out(Clock::time_point begin);
  [[noreturn]] void fail(std::string const& reason) { fail(job_.rank(), reason); }
  [[noreturn]] void fail(int origin, std::string const& reason);
  [[nodiscard]] std::string describe_this_rank() const { return group_.describe_rank(group_.rank); }
  [[nodiscard]] std::string describe_current() const;
  [[nodiscard]] std::string describe_last_ended() const;

  HostJob& job_;
  Group group_;
  CommOptions options_;
  std::uint64_t submitted_ = 0, splits_ = 0;
  std::uint32_t tickets_ = 0;                              ///< Given to transactions and splits.
  std::span<std::byte> staging_;                           // the caller's
  std::vector<std::unique_ptr<std::byte[]>> own_staging_;  // if the caller gave none; the last one is the longest
  std::int64_t own_staging_bytes_ = 0;
  TransactionPool pool_;

  // state of the running transaction
  Agreement agreement_;
  Transaction const* current_ = nullptr;
  bool awaits_messages_ = false;  ///< Then only their partners are awaited.
  std::atomic<std::uint64_t> position_begun_{0};
  std::uint64_t position_ended_ = 0;
  Record last_ended_;
  std::string new_name_;  ///< Name of the part while a split runs.
  std::atomic<bool> leaving_{false};
  std::atomic<std::uint32_t> begun_{0};
  Counter served_, ended_;
};

}  // namespace zeroth::comm
