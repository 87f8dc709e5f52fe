// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "report.hpp"

namespace gpt {

namespace {

/// Open MPI gives every rank a terminal of its own making, wherever mpirun's output goes.
bool is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1 && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr &&
         std::getenv("PMIX_RANK") == nullptr;
}

}  // namespace

Progress::Progress(std::int64_t steps, std::int64_t tokens_per_step)
    : steps_{steps}, tokens_per_step_{tokens_per_step}, terminal_{is_terminal()} {}

Progress::~Progress() {
  if (open_) {
    output_.write("\n");
  }
}

void Progress::say(std::string const& lines) {
  output_.write(open_ ? "\n" + lines : lines);
  open_ = false;
}

void Progress::show(zeroth::StepReport const& step, std::int64_t bytes) {
  auto const line = fmt::format("step {}/{}  loss {:.4f}  norm {:.4g}{}  {:.0f} tokens/s  {:.1f} MiB per rank",
                                step.step, steps_, step.loss, step.grad_norm, step.skipped ? "  skipped" : "",
                                tokens_per_second(step, tokens_per_step_), static_cast<double>(bytes) / (1 << 20));
  constexpr char const* over = "\r\x1b[K";  // to the start of the line, and clear it
  output_.write(terminal_ ? over + line : line + "\n");
  open_ = terminal_;
}

}  // namespace gpt
