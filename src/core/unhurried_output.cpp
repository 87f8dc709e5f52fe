// SPDX-License-Identifier: Apache-2.0
#include "core/unhurried_output.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

#include "core/start_thread.hpp"
#include "zeroth/tool/core/standard_streams.hpp"
#include "zeroth/tool/core/terminal.hpp"

namespace zeroth {

namespace {

constexpr std::size_t most_waiting = std::size_t{64} << 10U;
constexpr std::chrono::milliseconds patience{2000};
constexpr std::chrono::milliseconds patience_with_the_slow{100};  // if text was dropped before

struct WaitingText {
  std::string text;
  bool is_over = false;  // a line that overwrites the last one
};

}  // namespace

struct UnhurriedOutput::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<WaitingText> texts;  // the first one is being written
  std::size_t bytes = 0, left_out = 0;
  bool ending = false;

  void write_all() {
    std::unique_lock lock{mutex};
    while (true) {
      changed.wait(lock, [this] { return !texts.empty() || ending; });
      if (texts.empty()) {
        return;
      }
      auto const& first = texts.front();  // a deque's elements do not move
      lock.unlock();
      first.is_over ? zeroth::write_over(first.text) : write_output(first.text);
      lock.lock();
      bytes -= first.text.size();
      texts.pop_front();
      changed.notify_all();
    }
  }
};

UnhurriedOutput::UnhurriedOutput()
    : queue_{std::make_shared<Queue>()}, thread_{start_thread("writing progress", [queue = queue_] {
        queue->write_all();
      })} {}

UnhurriedOutput::~UnhurriedOutput() {
  write({});  // which ends an open line
  std::unique_lock lock{queue_->mutex};
  queue_->ending = true;
  queue_->changed.notify_all();
  auto const one = queue_->left_out > 0 ? patience_with_the_slow : patience;
  auto waiting = queue_->texts.size();
  while (waiting > 0 && queue_->changed.wait_for(lock, one, [&] { return queue_->texts.size() < waiting; })) {
    waiting = queue_->texts.size();
  }
  auto missing = queue_->left_out;
  for (auto const& each : queue_->texts) {
    missing += each.text.empty() ? 0U : 1U;
  }
  lock.unlock();
  waiting == 0 ? thread_.join() : thread_.detach();
  if (missing > 0) {
    print_error(fmt::format("standard output was not read in time: {} lines were dropped", missing));
  }
}

void UnhurriedOutput::write(std::string text) { add(std::move(text), false); }

void UnhurriedOutput::write_over(std::string line) { add(std::move(line), true); }

void UnhurriedOutput::add(std::string text, bool is_over) {
  std::lock_guard const lock{queue_->mutex};
  if (is_over && queue_->texts.size() > 1 && queue_->texts.back().is_over) {
    queue_->bytes -= queue_->texts.back().text.size();
    queue_->texts.pop_back();
  }
  if (queue_->bytes + text.size() > most_waiting) {
    ++queue_->left_out;
    return;
  }
  queue_->bytes += text.size();
  queue_->texts.push_back({std::move(text), is_over});
  queue_->changed.notify_all();
}

}  // namespace zeroth
