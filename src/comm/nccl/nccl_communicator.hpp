// SPDX-License-Identifier: Apache-2.0
/// Ranks that are processes, each with a GPU: collectives by NCCL.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/nccl_agreement.hpp"
#include "comm/nccl/nccl_link.hpp"
#include "comm/nccl/nccl_session.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// The communicator of all ranks, "world". All ranks call it, with their GPU current. Waits for all ranks until the
/// timeout; throws as NcclLink::start() does.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl(std::shared_ptr<NcclSession> session,
                                                      CommOptions const& options = {});

/// Stream order: a transaction is work of the stream, between two events that the watch polls. The host waits for other
/// hosts in split() and register_memory(), and in submit() with CommOptions::check. It waits for this GPU when NCCL
/// requires an idle communicator: in split(), in register_memory() and in the destructor.
/// Sums have NCCL's order and roundings, which depend on its algorithm. They need not equal those of other backends.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclSession> session, std::shared_ptr<NcclLink> link, CommOptions const& options);
  ~NcclCommunicator() override;

  [[nodiscard]] int rank() const noexcept override { return link_->identity.group.rank; }
  [[nodiscard]] int world() const noexcept override { return link_->world(); }
  [[nodiscard]] int job_rank(int rank) const noexcept override { return link_->identity.group.job_rank(rank); }
  [[nodiscard]] Transport transport() const noexcept override { return Transport::nccl; }
  [[nodiscard]] std::string const& name() const noexcept override { return link_->name(); }
  [[nodiscard]] FlightRecorder& recorder() noexcept override { return session_->recorder(); }
  void set_options(CommOptions const& options) override;
  void set_staging(std::span<std::byte> /*staging*/) override {}
  [[nodiscard]] std::string why_no_graphs() const override { return {}; }
  void abort(std::string const& reason) noexcept override { session_->fail(reason); }
  [[nodiscard]] std::optional<std::string> failure() const override { return session_->failure(); }

 private:
  void do_submit(device::Stream& stream, Label const& label, std::span<Collective const> collectives) override;
  [[nodiscard]] std::unique_ptr<Communicator> do_split(int color, int key, std::string const& name) override;

  [[nodiscard]] std::unique_ptr<Registration> do_register(device::Memory const& memory) override;
  void do_watch_graphs(device::Stream& stream, Label const& label, std::function<void()> const& launch) override;
  [[nodiscard]] Meetings do_meetings() override {
    return {&session_->rendezvous().key_values(), link_->identity.group.id, options_.timeout};
  }
  [[nodiscard]] std::unique_ptr<Communicator> do_create_group(std::uint64_t id, std::span<int const> ranks,
                                                              std::string const& name) override;

  [[nodiscard]] std::exception_ptr ended_before(Label const& label, std::span<Collective const> collectives) const;
  [[nodiscard]] Transaction& take(Label const& label, std::span<Collective const> collectives);
  void capture(Transaction& transaction, cudaStream_t stream);
  void prepare(Transaction& transaction);
  void issue(Transaction& transaction, cudaStream_t stream, Clock::time_point deadline);
  void launch(Transaction& transaction, std::shared_ptr<device::Failure> failure, cudaStream_t stream);
  void drain();
  /// The time limit to end work in flight, the handle and windows.
  [[nodiscard]] std::chrono::milliseconds time_at_the_end() const noexcept;
  [[nodiscard]] std::string describe_this_rank() const { return link_->identity.group.describe_rank(rank()); }

  std::shared_ptr<NcclSession> session_;
  std::shared_ptr<NcclLink> link_;
  CommOptions options_;
  std::uint64_t sequence_ = 0, splits_ = 0;
  NcclAgreement agreement_;
  void* barrier_word_;
  int exceptions_at_birth_ = std::uncaught_exceptions();
};

}  // namespace zeroth::comm
