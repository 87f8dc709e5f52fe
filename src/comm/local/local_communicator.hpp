// SPDX-License-Identifier: Apache-2.0
/// The local backend: ranks are threads that work in each other's memory.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/local/local_group.hpp"
#include "comm/local/local_share.hpp"
#include "comm/transaction.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank, CommOptions const& options);
  /// Ranks that wait for this one then fail soon, and so does a running transaction of this one.
  ~LocalCommunicator() override;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world() const noexcept override { return group_->world(); }
  [[nodiscard]] int job_rank(int rank) const noexcept override { return group_->member(rank).job_rank; }
  [[nodiscard]] Transport transport() const noexcept override { return Transport::local; }
  [[nodiscard]] std::string const& name() const noexcept override { return group_->name(); }
  [[nodiscard]] FlightRecorder& recorder() noexcept override { return *group_->member(rank_).recorder; }
  void set_options(CommOptions const& options) override;
  void set_staging(std::span<std::byte> /*staging*/) override {}  // needs none
  void abort(std::string const& reason) noexcept override { group_->abort().abort(reason); }
  [[nodiscard]] std::optional<std::string> failure() const override { return group_->abort().failure(); }

 private:
  void do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) override;
  [[nodiscard]] std::unique_ptr<Communicator> do_split(int color, int key, std::string const& name) override;
  [[nodiscard]] Meetings do_meetings() override { return {&group_->key_values(), group_->id(), options_.timeout}; }
  [[nodiscard]] std::unique_ptr<Communicator> do_create_group(std::uint64_t id, std::span<int const> ranks,
                                                              std::string const& name) override;

  /// For streams of GPUs: runs the transaction on the calling thread, which enqueues its work.
  void run_here(Transaction& transaction) noexcept;

  // On the stream's thread, or on the caller's if the stream is a GPU's, in this order:
  void run(Transaction& transaction);
  void await_ticket(Transaction const& transaction);
  void post_sends(Transaction const& transaction);
  void do_group(Transaction const& transaction);
  void share(Transaction const& transaction);
  void await_others(device::PeerStream& stream);
  void receive(Transaction const& transaction, Collective const& message);
  void await_taken(Transaction const& transaction, int receiver);
  void close_sends(Transaction const& transaction) noexcept;

  std::shared_ptr<LocalGroup> group_;
  int rank_;
  CommOptions options_;
  std::uint64_t submitted_ = 0;
  TransactionPool pool_;

  // state of the running transaction
  LocalShare share_;
  std::vector<Collective const*> of_ranks_;
  std::atomic<std::uint32_t> begun_{0};
  Counter served_, ended_;
};

}  // namespace zeroth::comm
