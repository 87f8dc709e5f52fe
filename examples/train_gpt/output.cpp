// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <type_traits>

#include "run_record.hpp"

namespace gpt {

Output::Output(zeroth::Job const& job, Options const& options, Shape const& shape, std::int64_t tokens_per_step)
    : options_{options}, tokens_per_step_{tokens_per_step} {
  if (job.rank() == 0) {
    progress_.emplace(
        zeroth::ProgressOptions{.steps = options.steps,
                                .tokens_per_step = tokens_per_step,
                                .flops_per_step = static_cast<double>(tokens_per_step) * flops_per_token(shape),
                                .peak_flops_per_s = options.peak_tflops.value_or(0) * 1e12 * job.world()});
    if (!options.report.empty()) {
      report_.emplace("report", options.report);
    }
  }
}

void Output::begin(std::string const& facts, std::optional<zeroth::Restored> const& restored) {
  if (!progress_) {
    return;
  }
  auto record = facts;
  if (restored) {
    auto const changes = changes_since(*restored, facts);
    record = resumed_record(facts, *restored, changes);
    auto const at = fmt::format("{} at step {}", restored->path.string(), restored->step);
    progress_->say(restored->step < options_.steps
                       ? fmt::format("resumes from {}: {} of {} steps are left\n", at, options_.steps - restored->step,
                                     options_.steps)
                       : fmt::format("{} has all of {} steps: nothing is left to train\n", at, options_.steps));
    for (auto const& change : changes) {
      if (!change.starts_with("config.")) {  // the engine has logged changes of the stage file
        progress_->say("  " + change + "\n");
      }
    }
  }
  if (report_) {
    report_->write(record);
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

void Output::finish(zeroth::Job& job, RankMemory const& mine, RunEnd end, std::int64_t step) {
  if (progress_ && end == RunEnd::stopped) {
    progress_->say(fmt::format("stopped after step {} of {}, which is saved: --resume auto resumes from there\n", step,
                               options_.steps));
  }
  static_assert(std::is_trivially_copyable_v<RankMemory>);
  auto const all = job.gather(std::string_view{reinterpret_cast<char const*>(&mine), sizeof mine});
  if (report_) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      RankMemory memory;
      std::memcpy(&memory, all[rank].data(), sizeof memory);
      report_->write(memory_record(static_cast<int>(rank), memory));
    }
    report_->publish();
  }
}

}  // namespace gpt
