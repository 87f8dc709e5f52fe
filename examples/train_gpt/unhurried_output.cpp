// SPDX-License-Identifier: Apache-2.0
#include "unhurried_output.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

#include <zeroth/core/standard_streams.hpp>

namespace gpt {

namespace {

constexpr std::size_t most_waiting = std::size_t{64} << 10U;
constexpr std::chrono::milliseconds patience{2000};
constexpr std::chrono::milliseconds patience_with_the_slow{100};  // those that something was left out for

}  // namespace

struct UnhurriedOutput::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> texts;  // the first one is being written
  std::size_t bytes = 0, left_out = 0;
  bool ending = false;

  void write_all() {
    std::unique_lock lock{mutex};
    while (true) {
      changed.wait(lock, [this] { return !texts.empty() || ending; });
      if (texts.empty()) {
        return;
      }
      auto const& text = texts.front();  // a deque's elements stay where they are
      lock.unlock();
      zeroth::write_output(text);
      lock.lock();
      bytes -= text.size();
      texts.pop_front();
      changed.notify_all();
    }
  }
};

UnhurriedOutput::UnhurriedOutput()
    : queue_{std::make_shared<Queue>()}, thread_{[queue = queue_] { queue->write_all(); }} {}

UnhurriedOutput::~UnhurriedOutput() {
  std::unique_lock lock{queue_->mutex};
  queue_->ending = true;
  queue_->changed.notify_all();
  auto const one = queue_->left_out > 0 ? patience_with_the_slow : patience;
  auto waiting = queue_->texts.size();
  while (waiting > 0 && queue_->changed.wait_for(lock, one, [&] { return queue_->texts.size() < waiting; })) {
    waiting = queue_->texts.size();
  }
  auto const missing = queue_->left_out + waiting;
  lock.unlock();
  waiting == 0 ? thread_.join() : thread_.detach();
  if (missing > 0) {
    zeroth::write_error(fmt::format("train_gpt: nobody reads standard output: {} lines are missing in it\n", missing));
  }
}

void UnhurriedOutput::write(std::string text) {
  std::lock_guard const lock{queue_->mutex};
  if (queue_->bytes + text.size() > most_waiting) {
    ++queue_->left_out;
    return;
  }
  queue_->bytes += text.size();
  queue_->texts.push_back(std::move(text));
  queue_->changed.notify_all();
}

}  // namespace gpt
