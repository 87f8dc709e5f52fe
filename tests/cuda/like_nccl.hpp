// SPDX-License-Identifier: Apache-2.0
/// Threads whose sums are grouped as NCCL's, so that jobs over the tests' NCCL can be compared with them by bits.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "support/wrapped.hpp"

namespace zeroth::testing {

/// Reduces as NCCL does: ranks receive rounded sums, and then add them to the existing ones.
class LikeNccl final : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;
  [[nodiscard]] comm::Transport transport() const noexcept override { return comm::Transport::nccl; }

 private:
  void do_submit(device::Stream& stream, comm::Label const& label,
                 std::span<comm::Collective const> collectives) override {
    inner().submit(stream, label, collectives);
  }
  [[nodiscard]] std::unique_ptr<comm::Communicator> do_split(int color, int key, std::string const& name) override {
    auto split = inner().split(color, key, name);
    return split ? std::make_unique<LikeNccl>(std::move(split)) : nullptr;
  }
};
inline std::unique_ptr<comm::Communicator> like_nccl(std::unique_ptr<comm::Communicator> inner) {
  return std::make_unique<LikeNccl>(std::move(inner));
}

}  // namespace zeroth::testing
