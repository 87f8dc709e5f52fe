/// The mpi backend: ranks are processes.
#pragma once
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/mpi_session.hpp"
#include "comm/mpi_transfers.hpp"
#include "comm/transaction.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// A communicator of all ranks of the job, with all other ranks.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi(std::shared_ptr<MpiSession> session,
                                                     CommOptions const& options = {});

/// The stream's thread takes a transaction apart and sums; the MPI thread moves bytes. Transactions run one after
/// another, on whatever streams they are, so that all ranks start the same MPI operations in the same order.
class MpiCommunicator final : public Communicator {
 public:
  struct Group {
    MPI_Comm handle = MPI_COMM_NULL;  ///< Owned.
    std::uint64_t id = 0;             ///< The same on all its ranks, and only there.
    std::string name;
    std::vector<int> job_ranks;  ///< [world] Rank in the job of each rank.
    int rank = 0;
  };
  MpiCommunicator(std::shared_ptr<MpiSession> session, Group group, CommOptions const& options);
  /// Ranks that wait for this one then fail soon.
  ~MpiCommunicator() override;

  [[nodiscard]] int rank() const noexcept override { return group_.rank; }
  [[nodiscard]] int world() const noexcept override { return static_cast<int>(group_.job_ranks.size()); }
  [[nodiscard]] Transport transport() const noexcept override { return Transport::mpi; }
  [[nodiscard]] std::string const& name() const noexcept override { return group_.name; }
  [[nodiscard]] FlightRecorder& recorder() noexcept override { return *session_->recorder(); }
  void set_options(CommOptions const& options) override;
  void set_staging(std::span<std::byte> staging) override { staging_ = staging; }
  void abort(std::string const& reason) noexcept override { session_->fail(session_->rank(), reason); }

 private:
  void do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) override;
  [[nodiscard]] std::unique_ptr<Communicator> do_split(int color, int key, std::string const& name) override;
  [[nodiscard]] Transaction& take(Label const& label, std::span<Collective const> collectives);
  [[nodiscard]] std::span<std::byte> staging_for(Label const& label, std::span<Collective const> collectives);

  // on the stream's thread
  template <class Work>
  void in_turn(std::uint32_t turn, Transaction& transaction, Work const& work);
  void await_turn(std::uint32_t turn, Transaction const& transaction);
  void run(Transaction const& transaction, bool check, std::span<std::byte> staging);
  void compare(Transaction const& transaction);
  void compare_messages(Transaction const& transaction);
  void check_message(Transaction const& transaction, Collective const& mine, Transaction const& other);
  void await(MpiOperation const& operation);
  [[nodiscard]] std::vector<int> awaited() const;
  [[nodiscard]] std::optional<int> find_leaver() const;
  [[noreturn]] void time_out(Clock::time_point begin);
  [[noreturn]] void fail(std::string const& reason) { fail(session_->rank(), reason); }
  [[noreturn]] void fail(int origin, std::string const& reason);
  [[nodiscard]] std::string describe_rank(int rank) const;
  [[nodiscard]] std::string describe_current() const;
  [[nodiscard]] std::string describe_last_ended() const;

  std::shared_ptr<MpiSession> session_;
  Group group_;
  CommOptions options_;
  std::uint64_t submitted_ = 0, positions_ = 0, splits_ = 0;
  std::uint32_t turns_ = 0;                                ///< Transactions and splits.
  std::span<std::byte> staging_;                           // the caller's
  std::vector<std::unique_ptr<std::byte[]>> own_staging_;  // where the caller gave none; the last is the longest
  std::int64_t own_staging_bytes_ = 0;
  TransactionPool pool_;

  // of the transaction that runs
  MpiTransfers transfers_;
  std::vector<TransactionDigest> digests_;  // [world]
  Transaction const* current_ = nullptr;
  bool awaits_messages_ = false;  ///< Then only their partners are waited for.
  std::atomic<std::uint64_t> position_begun_{0};
  std::uint64_t position_ended_ = 0;
  Record last_ended_;
  std::string new_name_;  ///< Of the part, while a split runs.
  std::atomic<bool> leaving_{false};
  std::atomic<std::uint32_t> begun_{0};
  Counter turn_, ended_;
};

}  // namespace zeroth::comm
