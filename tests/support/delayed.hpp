// SPDX-License-Identifier: Apache-2.0
/// A communicator that delays each transaction, by a different time on every rank.
#pragma once
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "support/wrapped.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::testing {

class DelayedCommunicator final : public WrappedCommunicator {
 public:
  explicit DelayedCommunicator(std::unique_ptr<comm::Communicator> inner, unsigned seed = 1)
      : WrappedCommunicator{std::move(inner)}, random_{seed * 7919U + static_cast<unsigned>(rank()) * 104729U + 1U} {}

 private:
  void do_submit(device::Stream& stream, comm::Label const& label,
                 std::span<comm::Collective const> collectives) override {
    random_ = random_ * 1664525U + 1013904223U;
    auto const microseconds = (random_ >> 16U) % 4 == 0 ? (random_ >> 20U) % 800 : 0;
    device::as_cpu(stream).post(
        [microseconds] { std::this_thread::sleep_for(std::chrono::microseconds{microseconds}); });
    inner().submit(stream, label, collectives);
  }
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override {
    auto split = inner().split(color, key, name);
    return split ? std::make_unique<DelayedCommunicator>(std::move(split), random_) : nullptr;
  }

  unsigned random_;
};

inline std::unique_ptr<comm::Communicator> delayed(std::unique_ptr<comm::Communicator> inner) {
  return std::make_unique<DelayedCommunicator>(std::move(inner));
}

}  // namespace zeroth::testing
