// SPDX-License-Identifier: Apache-2.0
/// A communicator around another. It forwards everything except submissions and splits, which derived classes
/// implement.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::testing {

class WrappedCommunicator : public comm::Communicator {
 public:
  explicit WrappedCommunicator(std::unique_ptr<comm::Communicator> inner) : inner_{std::move(inner)} {}
  [[nodiscard]] int rank() const noexcept final { return inner_->rank(); }
  [[nodiscard]] int world() const noexcept final { return inner_->world(); }
  [[nodiscard]] int job_rank(int rank) const noexcept final { return inner_->job_rank(rank); }
  [[nodiscard]] comm::Transport transport() const noexcept override { return inner_->transport(); }
  [[nodiscard]] std::string const& name() const noexcept final { return inner_->name(); }
  [[nodiscard]] comm::FlightRecorder& recorder() noexcept final { return inner_->recorder(); }
  void set_options(comm::CommOptions const& options) override { inner_->set_options(options); }
  void set_staging(std::span<std::byte> staging) final { inner_->set_staging(staging); }
  void abort(std::string const& reason) noexcept final { inner_->abort(reason); }
  [[nodiscard]] std::optional<std::string> failure() const final { return inner_->failure(); }

 protected:
  [[nodiscard]] comm::Communicator& inner() noexcept { return *inner_; }

 private:
  std::unique_ptr<comm::Communicator> inner_;
};

}  // namespace zeroth::testing
