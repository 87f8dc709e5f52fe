// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/process_end.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "zeroth/tool/core/standard_streams.hpp"

namespace zeroth::comm {

void flush_output() noexcept {
  if (takes_more(STDOUT_FILENO, Clock::now() + std::chrono::seconds{1})) {  // do not wait for a reader
    std::cout.flush();
    std::fflush(nullptr);
  }
}

void end_process(int status) noexcept {
  flush_output();
  std::_Exit(status);
}

}  // namespace zeroth::comm
