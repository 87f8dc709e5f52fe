// SPDX-License-Identifier: Apache-2.0
#include "device/host_update.hpp"

#include <cstring>

#include "core/start_thread.hpp"
#include "device/element_loops.hpp"

namespace zeroth::device {

UpdateThreads::UpdateThreads(int threads) {
  try {
    for (int i = 1; i < threads; ++i) {
      threads_.push_back(
          start_thread("zeroth.offload_update_threads", [this, i] { work(static_cast<std::size_t>(i)); }));
    }
  } catch (...) {
    end();
    throw;
  }
}

UpdateThreads::~UpdateThreads() { end(); }

void UpdateThreads::end() noexcept {
  shares_ = {};
  begun_.add();
  for (auto& thread : threads_) {
    thread.join();
  }
}

void UpdateThreads::run(std::span<optim::UpdateArgs const> shares) {
  if (shares.size() > 1) {
    shares_ = shares;
    ++rounds_;
    begun_.add();
  }
  update_whole(shares.front());
  ended_.wait_for(rounds_ * static_cast<std::uint32_t>(threads_.size()));
}

void UpdateThreads::work(std::size_t share) {
  for (std::uint32_t round = 1;; ++round) {
    begun_.wait_for(round);
    if (shares_.empty()) {
      return;
    }
    if (share < shares_.size()) {
      update_whole(shares_[share]);
    }
    ended_.add();
  }
}

void update_whole(optim::UpdateArgs const& args) {
  if (args.parameter == nullptr) {
    return optim::update(args);
  }
  if (args.scalars->skip) {
    return convert_elements(args.parameter, args.parameter_dtype, args.master, args.master_dtype, args.count);
  }
  optim::update(args);
  auto const element_bytes = bytes_of(args.parameter_dtype);
  std::int64_t end = 0;
  auto const clear_until = [&](std::int64_t begin) {
    std::memset(static_cast<std::byte*>(args.parameter) + end * element_bytes, 0,
                static_cast<std::size_t>((begin - end) * element_bytes));
  };
  for (auto const& segment : args.segments) {
    clear_until(segment.begin);
    end = segment.end;
  }
  clear_until(args.count);
}

}  // namespace zeroth::device
