// SPDX-License-Identifier: Apache-2.0
#include "core/logger.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <mutex>
#include <string_view>

#include "zeroth/core/error.hpp"
#include "zeroth/core/log.hpp"
#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth {
namespace {

class ErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(spdlog::details::log_msg const& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_error({line.data(), line.size()});
  }
  void flush_() override {}
};

/// Whether `logger` looks like the default logger that spdlog makes. Hardly any program makes one like it.
bool is_untouched(spdlog::logger const& logger) {
  return logger.name().empty() && logger.sinks().size() == 1 &&
         dynamic_cast<spdlog::sinks::stdout_color_sink_mt const*>(logger.sinks().front().get()) != nullptr;
}

}  // namespace

spdlog::logger& logger() {
  auto& given = *spdlog::default_logger_raw();
  if (!is_untouched(given)) {
    return given;
  }
  static spdlog::logger own{"zeroth", std::make_shared<ErrorSink>()};
  own.set_level(given.level());
  return own;
}

void detail::log_warning(std::string_view text) { logger().warn("{}{}", rank_prefix(), text); }

}  // namespace zeroth
