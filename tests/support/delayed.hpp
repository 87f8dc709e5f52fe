// SPDX-License-Identifier: Apache-2.0
/// A communicator that comes late, by a different time for every rank and transaction.
#pragma once
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {

class DelayedCommunicator final : public comm::Communicator {
 public:
  explicit DelayedCommunicator(std::unique_ptr<comm::Communicator> inner, unsigned seed = 1)
      : inner_{std::move(inner)}, random_{seed * 7919U + static_cast<unsigned>(inner_->rank()) * 104729U + 1U} {}
  [[nodiscard]] int rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int world() const noexcept override { return inner_->world(); }
  [[nodiscard]] comm::Transport transport() const noexcept override { return inner_->transport(); }
  [[nodiscard]] std::string const& name() const noexcept override { return inner_->name(); }
  [[nodiscard]] comm::FlightRecorder& recorder() noexcept override { return inner_->recorder(); }
  void set_options(comm::CommOptions const& options) override { inner_->set_options(options); }
  void set_staging(std::span<std::byte> staging) override { inner_->set_staging(staging); }
  void abort(std::string const& reason) noexcept override { inner_->abort(reason); }

 private:
  void do_submit(device::Stream& stream, comm::Label const& label,
                 std::span<comm::Collective const> collectives) override {
    random_ = random_ * 1664525U + 1013904223U;
    auto const microseconds = (random_ >> 16U) % 4 == 0 ? (random_ >> 20U) % 800 : 0;
    device::as_cpu(stream).post(
        [microseconds] { std::this_thread::sleep_for(std::chrono::microseconds{microseconds}); });
    inner_->submit(stream, label, collectives);
  }
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override {
    auto split = inner_->split(color, key, name);
    return split ? std::make_unique<DelayedCommunicator>(std::move(split), random_) : nullptr;
  }

  std::unique_ptr<comm::Communicator> inner_;
  unsigned random_;
};

inline std::unique_ptr<comm::Communicator> delayed(std::unique_ptr<comm::Communicator> inner) {
  return std::make_unique<DelayedCommunicator>(std::move(inner));
}

}  // namespace zeroth::testing
