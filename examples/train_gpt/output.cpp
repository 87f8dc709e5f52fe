// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include "gather.hpp"

namespace gpt {

Output::Output(zeroth::Job const& job, Options const& options, std::int64_t tokens_per_step, std::string const& run)
    : tokens_per_step_{tokens_per_step} {
  if (job.rank() == 0) {
    progress_.emplace(options.steps, tokens_per_step);
    if (!options.report.empty()) {
      report_.emplace("report", options.report).write(run);
    }
  }
}

void Output::products(MathChoice const& math, std::string const& table) {
  if (progress_) {
    progress_->say("products by " + math.name + "\n" + table);
  }
}

void Output::step(zeroth::StepReport const& step, std::int64_t bytes) {
  if (progress_) {
    progress_->show(step, bytes);
  }
  if (report_) {
    report_->write(step_record(step, tokens_per_step_));
  }
}

void Output::finish(zeroth::Job& job, RankMemory const& mine) {
  auto const all = gather(job, mine);
  if (report_) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      report_->write(memory_record(static_cast<int>(rank), all[rank]));
    }
    report_->publish();
  }
}

}  // namespace gpt
