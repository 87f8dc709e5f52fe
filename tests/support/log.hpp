// SPDX-License-Identifier: Apache-2.0
/// The library's log, for tests that read it.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "zeroth/core/clock.hpp"

namespace zeroth::testing {

/// Captures the library's log while it lives.
class Log {
 public:
  Log() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_)); }
  ~Log() { spdlog::set_default_logger(before_); }
  Log(Log const&) = delete;
  Log& operator=(Log const&) = delete;
  /// Waits until `text` is in the log.
  [[nodiscard]] bool has(std::string const& text) const {
    auto const deadline = Clock::now() + std::chrono::seconds{120};
    while (Clock::now() < deadline) {
      if (all().find(text) != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    return false;
  }
  /// How often `text` is in the log so far.
  [[nodiscard]] int count(std::string const& text) const {
    auto const logged = all();
    int found = 0;
    for (auto at = logged.find(text); at != std::string::npos; at = logged.find(text, at + 1)) {
      ++found;
    }
    return found;
  }
  [[nodiscard]] std::string all() const {
    auto const lines = sink_->last_formatted();
    return fmt::format("{}", fmt::join(lines, ""));
  }

 private:
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace zeroth::testing
