// SPDX-License-Identifier: Apache-2.0
/// Memory that is registered with NCCL.
#pragma once
#include <nccl.h>

#include <chrono>
#include <memory>
#include <utility>

#include "comm/nccl/nccl_link.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// An NCCL window. Its destructor waits at most `timeout`.
class NcclWindow final : public Registration {
 public:
  NcclWindow(std::shared_ptr<NcclLink> link, ncclWindow_t window, std::chrono::milliseconds timeout)
      : link_{std::move(link)}, window_{window}, timeout_{timeout} {}
  ~NcclWindow() override { link_->forget(window_, Clock::now() + timeout_); }

 private:
  std::shared_ptr<NcclLink> link_;
  ncclWindow_t window_;
  std::chrono::milliseconds timeout_;
};

}  // namespace zeroth::comm
