// SPDX-License-Identifier: Apache-2.0
// The progress display during training: one line that is redrawn on a terminal, one line per step anywhere else.
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/progress_text.hpp"
#include "support/catch.hpp"
#include "zeroth/core/log.hpp"
#include "zeroth/engine/progress_line.hpp"
#include "zeroth/tool/core/standard_streams.hpp"
#include "zeroth/tool/core/terminal.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

StepReport report_of(std::int64_t step) {
  StepReport report;
  report.step = step;
  report.loss = 5.25F;
  report.grad_norm = 0.5F;
  report.learning_rate = 0.001F;
  report.step_ms = 512;
  return report;
}

constexpr ProgressOptions options_of_all{
    .steps = 20, .tokens_per_step = 1024, .flops_per_step = 1e12, .peak_flops_per_s = 4e12};

/// While it lives, standard output and standard error are `target`, and the environment does not describe a terminal.
class Redirected {
 public:
  explicit Redirected(int target) {
    std::fflush(stdout);
    for (auto& [stream, kept] : kept_) {
      kept = ::dup(stream);
      if (kept < 0 || ::dup2(target, stream) != stream) {
        throw std::runtime_error{"dup"};
      }
    }
    ::setenv("TERM", "xterm", 1);
  }
  Redirected(Redirected const&) = delete;
  Redirected& operator=(Redirected const&) = delete;
  ~Redirected() {
    std::fflush(stdout);
    for (auto const& [stream, kept] : kept_) {
      ::dup2(kept, stream);
      ::close(kept);
    }
  }

 private:
  std::pair<int, int> kept_[2] = {{STDOUT_FILENO, -1}, {STDERR_FILENO, -1}};
};

/// A terminal. It reads everything written to it while it lives.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(int columns) {
    if (::openpty(&ours_, &theirs_, nullptr, nullptr, nullptr) != 0) {
      throw std::runtime_error{"openpty"};
    }
    resize(columns);
  }
  PseudoTerminal(PseudoTerminal const&) = delete;
  PseudoTerminal& operator=(PseudoTerminal const&) = delete;
  ~PseudoTerminal() {
    ::close(ours_);
    ::close(theirs_);
  }
  [[nodiscard]] int descriptor() const noexcept { return theirs_; }
  void resize(int columns) const {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    ::ioctl(theirs_, TIOCSWINSZ, &size);
  }
  /// Waits until `part` has occurred `times` times, or for a minute without output.
  void await(std::string const& part, int times = 1) {
    auto const count = [&] {
      int found = 0;
      for (auto at = text_.find(part); at != std::string::npos; at = text_.find(part, at + part.size())) {
        ++found;
      }
      return found;
    };
    while (count() < times && read_some(60'000)) {
    }
  }
  /// Everything written. The terminal's line discipline has put a \r before each \n.
  [[nodiscard]] std::string const& text() {
    while (read_some(0)) {
    }
    return text_;
  }

 private:
  bool read_some(int patience_ms) {
    pollfd ready{ours_, POLLIN, 0};
    char part[256];
    auto const bytes = ::poll(&ready, 1, patience_ms) > 0 ? ::read(ours_, part, sizeof part) : 0;
    text_.append(part, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    return bytes > 0;
  }
  int ours_ = -1, theirs_ = -1;
  std::string text_;
};

void show_two_steps() {
  ProgressLine progress{options_of_all};
  progress.show(report_of(1), 3 << 20);
  auto second = report_of(2);
  second.skipped = true;
  progress.show(second, 3 << 20);
}

std::string text_on(PseudoTerminal& terminal) {
  {
    Redirected const redirected{terminal.descriptor()};
    show_two_steps();
  }
  return terminal.text();
}

/// The lines that were drawn over each other.
std::vector<std::string> drawn_lines(std::string const& text) {
  std::string const over = "\r\x1b[K";
  std::vector<std::string> lines;
  for (auto at = text.find(over); at != std::string::npos; at = text.find(over, at + 1)) {
    auto const begin = at + over.size();
    lines.push_back(text.substr(begin, text.find('\r', begin) - begin));
  }
  return lines;
}

TEST_CASE("a progress line has its values in order of importance, and omits those that do not fit") {
  engine::ProgressState const state{.bytes = 3 << 20, .elapsed_s = 75, .step_s = 200};
  auto const text = [&](int columns) { return engine::progress_text(options_of_all, report_of(2), state, columns); };
  CHECK(text(0) ==
        "step 2/20  loss 5.2500  lr 0.001  norm 0.5  2000 tokens/s  1.95 TFLOP/s  MFU 48.8 %  3.0 MiB per rank  "
        "1:15 elapsed  1:00:00 left");
  CHECK(text(200) == text(0));
  CHECK(text(80) == "step 2/20  loss 5.2500  lr 0.001  2000 tokens/s  MFU 48.8 %  1:00:00 left");
  CHECK(text(60) == "step 2/20  loss 5.2500  2000 tokens/s  1:00:00 left");
  CHECK(text(40) == "step 2/20  loss 5.2500  1:00:00 left");
  CHECK(text(4) == "step");
  for (int columns = 1; columns < 150; ++columns) {
    CHECK(text(columns).size() <= static_cast<std::size_t>(columns));
  }
}

TEST_CASE("a progress line omits unknown values") {
  auto report = report_of(3);
  report.step_ms = 0;
  CHECK(engine::progress_text({}, report, {.elapsed_s = 400'000}, 0) ==
        "step 3  loss 5.2500  lr 0.001  norm 0.5  111 h elapsed");
  auto const no_peak = engine::progress_text({.flops_per_step = 1e12}, report_of(3), {}, 0);
  CHECK_THAT(no_peak, Contains("TFLOP/s") && !Contains("MFU") && !Contains("tokens") && !Contains("left"));
  CHECK_THAT(engine::progress_text(options_of_all, report_of(20), {.step_s = 1}, 0), !Contains("left"));
}

TEST_CASE("on a terminal each step overwrites the line before, and the last line is ended") {
  PseudoTerminal terminal{200};
  auto const text = text_on(terminal);
  CHECK(text.starts_with("\r\x1b[Kstep 1/20  loss 5.2500"));
  CHECK_THAT(text,
             Contains("\r\x1b[Kstep 2/20") && Contains("  skipped  2000 tokens/s") && Contains("  3.0 MiB per rank"));
  CHECK(text.ends_with(" left\r\n"));
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("a progress line fits a terminal, also after it becomes narrower") {
  PseudoTerminal terminal{80};
  {
    Redirected const redirected{terminal.descriptor()};
    ProgressLine progress{options_of_all};
    progress.show(report_of(1), 3 << 20);
    terminal.await("step 1/");
    terminal.resize(40);
    progress.show(report_of(2), 3 << 20);
  }
  auto const lines = drawn_lines(terminal.text());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].size() < 80);
  CHECK(lines[0].size() > 40);
  CHECK(lines[1].size() < 40);
  CHECK_THAT(lines[1], Contains("step 2/20  loss 5.2500"));
}

TEST_CASE("other messages have their own lines between steps") {
  PseudoTerminal terminal{80};
  {
    Redirected const redirected{terminal.descriptor()};
    ProgressLine progress{options_of_all};
    progress.say("begins\n");
    progress.show(report_of(1));
    terminal.await("step 1/");
    print_error("an error");
    progress.show(report_of(2));
    terminal.await("step 2/");
    detail::log_warning("a warning");
    progress.show(report_of(3));
    terminal.await("step 3/");
    write_output("output\n");
    progress.show(report_of(4));
    progress.say("stopped\n");
  }
  auto const& text = terminal.text();
  INFO(text);
  CHECK(text.starts_with("begins\r\n\r\x1b[Kstep 1/20"));
  CHECK_THAT(text, Contains(" left\r\nzeroth: an error\r\n\r\x1b[Kstep 2/20") && Contains(" left\r\n[") &&
                       Contains("a warning\r\n\r\x1b[Kstep 3/20") && Contains(" left\r\noutput\r\n\r\x1b[Kstep 4/20"));
  CHECK(text.ends_with(" left\r\nstopped\r\n"));
}

TEST_CASE("every step has a line if several processes share a terminal, or if it is dumb") {
  using Variables = std::vector<std::pair<char const*, char const*>>;
  auto const variables = GENERATE(Variables{{"OMPI_COMM_WORLD_RANK", "0"}}, Variables{{"PMIX_RANK", "0"}},
                                  Variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  PseudoTerminal terminal{80};
  for (auto const& [name, value] : variables) {
    ::setenv(name, value, 1);
  }
  auto const text = text_on(terminal);
  for (auto const& [name, value] : variables) {
    ::unsetenv(name);
  }
  CHECK_THAT(text, Contains(" left\r\nstep 2/20") && !Contains("\x1b"));  // the line discipline adds \r
}

TEST_CASE("a terminal has colours unless NO_COLOR is set, and a dumb terminal is not used as one") {
  PseudoTerminal const terminal{44};
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  auto const found = terminal_at(terminal.descriptor());
  CHECK(found.is_there);
  CHECK(found.has_colours);
  CHECK(found.columns == 44);
  ::setenv("NO_COLOR", "1", 1);
  CHECK(terminal_at(terminal.descriptor()).is_there);
  CHECK_FALSE(terminal_at(terminal.descriptor()).has_colours);
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  CHECK_FALSE(terminal_at(terminal.descriptor()).is_there);
  ::setenv("TERM", "xterm", 1);
}

TEST_CASE("without a terminal every step has a line") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  {
    Redirected const redirected{ends[1]};
    show_two_steps();
  }
  ::close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(ends[0], text.data(), text.size()), 0)));
  ::close(ends[0]);
  CHECK(text.starts_with("step 1/20  loss 5.2500"));
  CHECK_THAT(text, Contains(" left\nstep 2/20") && !Contains("\x1b") && !Contains("\r"));
  CHECK(text.ends_with(" left\n"));
}

}  // namespace
}  // namespace zeroth::testing
