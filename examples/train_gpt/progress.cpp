#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "report.hpp"

namespace gpt {

Progress::Progress(std::int64_t steps, std::int64_t tokens_per_step)
    : steps_{steps}, tokens_per_step_{tokens_per_step}, terminal_{::isatty(STDOUT_FILENO) == 1} {}

Progress::~Progress() {
  if (open_) {
    std::fputs("\n", stdout);
  }
}

void Progress::show(zeroth::StepReport const& step, std::int64_t bytes) {
  auto const line = fmt::format("step {}/{}  loss {:.4f}  norm {:.4g}{}  {:.0f} tokens/s  {:.1f} MiB per rank",
                                step.step, steps_, step.loss, step.grad_norm, step.skipped ? "  skipped" : "",
                                tokens_per_second(step, tokens_per_step_), static_cast<double>(bytes) / (1 << 20));
  constexpr char const* over = "\r\x1b[K";  // to the start of the line, and clear it
  std::fputs((terminal_ ? over + line : line + "\n").c_str(), stdout);
  std::fflush(stdout);
  open_ = terminal_;
}

}  // namespace gpt
