// SPDX-License-Identifier: Apache-2.0
#include "trace.hpp"

namespace gpt {

Trace::Trace(zeroth::Job const& job, Options const& options) : wanted_{!options.trace.empty()} {
  if (wanted_ && job.rank() == 0) {
    file_.emplace("trace file", options.trace);
  }
}

void Trace::finish(zeroth::Job& job) {
  if (!wanted_) {
    return;
  }
  auto const events = job.gather(timeline_.to_trace_events(job.rank()));
  if (file_) {
    file_->write(zeroth::to_trace(events));
    file_->publish();
  }
}

}  // namespace gpt
