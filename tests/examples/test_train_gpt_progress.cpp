// SPDX-License-Identifier: Apache-2.0
// What train_gpt shows while it trains: one line that is written over on a terminal, a line per step anywhere else.
#include <pty.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "progress.hpp"
#include "support/catch.hpp"

using Catch::Contains;

namespace {

/// Standard output is `target` until this ends.
class Redirected {
 public:
  explicit Redirected(int target) {
    std::fflush(stdout);
    REQUIRE(kept_ >= 0);
    REQUIRE(::dup2(target, STDOUT_FILENO) == STDOUT_FILENO);
  }
  Redirected(Redirected const&) = delete;
  Redirected& operator=(Redirected const&) = delete;
  ~Redirected() {
    std::fflush(stdout);
    ::dup2(kept_, STDOUT_FILENO);
    ::close(kept_);
  }

 private:
  int kept_ = ::dup(STDOUT_FILENO);
};

void show_two_steps(int target) {
  Redirected const redirected{target};
  gpt::Progress progress{20, 1024};
  zeroth::StepReport report;
  report.step = 1;
  report.loss = 5.25F;
  report.step_ms = 512;
  progress.show(report, 3 << 20);
  report.step = 2;
  report.skipped = true;
  progress.show(report, 3 << 20);
}

/// Until nobody can write any more; closes it.
std::string read_all(int from) {
  std::string text;
  char part[256];
  for (auto count = ::read(from, part, sizeof(part)); count > 0; count = ::read(from, part, sizeof(part))) {
    text.append(part, static_cast<std::size_t>(count));
  }
  ::close(from);
  return text;
}

}  // namespace

TEST_CASE("on a terminal a step is written over the one before, and the last line ends") {
  int ours = -1, theirs = -1;
  REQUIRE(::openpty(&ours, &theirs, nullptr, nullptr, nullptr) == 0);
  show_two_steps(theirs);
  ::close(theirs);
  auto const text = read_all(ours);
  CHECK(text.starts_with("\r\x1b[Kstep 1/20  loss 5.2500"));
  CHECK_THAT(text, Contains("2000 tokens/s  3.0 MiB per rank\r\x1b[Kstep 2/20") && Contains("  skipped  "));
  CHECK(text.ends_with("MiB per rank\r\n"));  // the terminal's own line discipline adds the \r
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("what is said below the steps has a line of its own") {
  int ours = -1, theirs = -1;
  REQUIRE(::openpty(&ours, &theirs, nullptr, nullptr, nullptr) == 0);
  {
    Redirected const redirected{theirs};
    gpt::Progress progress{20, 1024};
    zeroth::StepReport report;
    report.step_ms = 512;
    progress.say("begins\n");
    progress.show(report, 3 << 20);
    progress.say("stopped\n");
  }
  ::close(theirs);
  auto const text = read_all(ours);
  CHECK(text.starts_with("begins\r\n\r\x1b[Kstep 0/20"));
  CHECK(text.ends_with("MiB per rank\r\nstopped\r\n"));
}

TEST_CASE("on a terminal that a launcher made every step has a line") {
  auto const* const variable = GENERATE("OMPI_COMM_WORLD_RANK", "PMIX_RANK");
  int ours = -1, theirs = -1;
  REQUIRE(::openpty(&ours, &theirs, nullptr, nullptr, nullptr) == 0);
  ::setenv(variable, "0", 1);
  show_two_steps(theirs);
  ::unsetenv(variable);
  ::close(theirs);
  auto const text = read_all(ours);
  CHECK_THAT(text, Contains("MiB per rank\r\nstep 2/20") && !Contains("\x1b"));  // \r is the line discipline's
}

TEST_CASE("elsewhere every step has a line") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  show_two_steps(ends[1]);
  ::close(ends[1]);
  auto const text = read_all(ends[0]);
  CHECK(text.starts_with("step 1/20  loss 5.2500"));
  CHECK_THAT(text, Contains("MiB per rank\nstep 2/20"));
  CHECK(text.ends_with("MiB per rank\n"));
  CHECK_THAT(text, !Contains("\x1b") && !Contains("\r"));
}
