// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read_ahead.hpp"

#include <utility>

#include "core/start_thread.hpp"

namespace zeroth::checkpoint {

ReadAhead::ReadAhead(std::size_t count, std::span<std::byte> memory, Read read)
    : count_{count},
      memory_{memory.first(memory.size() / parts_in_memory), memory.subspan(memory.size() / parts_in_memory)},
      read_{std::move(read)} {
  thread_ = start_thread("reading a checkpoint", [this, rank = this_rank()] {
    this_rank() = rank;
    run();
  });
}

ReadAhead::~ReadAhead() {
  {
    std::lock_guard const lock{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::run() {
  std::unique_lock lock{mutex_};
  for (std::size_t next = 0; next < count_; ++next) {
    // Who uses a part has been given it by next(), and gives it back by the next call.
    changed_.wait(lock, [&] { return ends_ || next < parts_in_memory || next - parts_in_memory + 1 < taken_; });
    if (ends_) {
      return;
    }
    lock.unlock();
    std::size_t filled = 0;
    std::exception_ptr error;
    try {
      filled = read_(next, memory_[next % parts_in_memory]);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    filled_[next % parts_in_memory] = filled;
    error_ = error;
    if (error_) {
      changed_.notify_all();
      return;
    }
    done_ = next + 1;
    changed_.notify_all();
  }
}

std::span<std::byte const> ReadAhead::next() {
  std::unique_lock lock{mutex_};
  auto const index = taken_++;
  changed_.notify_all();
  changed_.wait(lock, [&] { return done_ > index || error_; });
  if (done_ <= index) {
    std::rethrow_exception(error_);
  }
  return memory_[index % parts_in_memory].first(filled_[index % parts_in_memory]);
}

}  // namespace zeroth::checkpoint
