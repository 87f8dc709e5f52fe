// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <fmt/format.h>

#include <cmath>

namespace gpt {

namespace {

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null"; }

std::string bytes(zeroth::MemoryBytes const& m) {
  return fmt::format(R"({{"parameters":{},"gradients":{},"optimizer":{},"slots":{},"scratch":{},"total":{}}})",
                     m.parameters, m.gradients, m.optimizer, m.slots, m.scratch, m.total());
}

}  // namespace

double tokens_per_second(zeroth::StepReport const& step, std::int64_t tokens) {
  return static_cast<double>(tokens) / step.step_ms * 1e3;
}

std::string step_record(zeroth::StepReport const& step, std::int64_t tokens) {
  return fmt::format(
      R"({{"record":"step","step":{},"loss":{},"grad_norm":{},"lr":{},"loss_scale":{},)"
      R"("nonfinite":{},"skipped":{},"step_ms":{},"tokens_per_s":{},"exposed_comm_ms":{},)"
      R"("exposed_io_ms":{},"activation_ms":{},"save_ms":{},"save_failed":{},"elapsed_s":{},"staleness":{}}})"
      "\n",
      step.step, number(step.loss), number(step.grad_norm), number(step.learning_rate), number(step.loss_scale),
      step.nonfinite, step.skipped, number(step.step_ms), number(tokens_per_second(step, tokens)),
      number(step.exposed_comm_ms), number(step.exposed_io_ms), number(step.activation_ms), number(step.save_ms),
      step.save_failed, number(step.elapsed_s), step.staleness);
}

std::string memory_record(int rank, RankMemory const& memory) {
  return fmt::format(R"({{"record":"memory","rank":{},"planned":{},"measured_peak":{}}})"
                     "\n",
                     rank, bytes(memory.planned), bytes(memory.measured));
}

}  // namespace gpt
