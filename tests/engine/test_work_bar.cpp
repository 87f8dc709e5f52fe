// SPDX-License-Identifier: Apache-2.0
/// The progress bar for long work.
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"
#include "zeroth/engine/work_bar.hpp"

namespace zeroth::testing {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30U;

/// The output of `use` on standard error, which is a terminal of `columns` columns meanwhile.
template <class F>
std::string on_a_terminal(int columns, F const& use) {
  int ours = -1, theirs = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  if (::openpty(&ours, &theirs, nullptr, nullptr, &size) != 0) {
    throw std::runtime_error{"openpty"};
  }
  ::setenv("TERM", "xterm", 1);
  int const kept = ::dup(STDERR_FILENO);
  ::dup2(theirs, STDERR_FILENO);
  use();
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  std::string text(4096, '\0');
  pollfd ready{ours, POLLIN, 0};
  auto const bytes = ::poll(&ready, 1, 0) > 0 ? ::read(ours, text.data(), text.size()) : 0;
  ::close(theirs);
  ::close(ours);
  return text.substr(0, static_cast<std::size_t>(bytes < 0 ? 0 : bytes));
}

TEST_CASE("a bar fills the rest of a line, and is omitted before the words are") {
  CHECK(work_text("verify", gib, 4 * gib, 80) ==
        "verify  25 %  1.00 of 4.00 GiB  [" + std::string(11, '#') + std::string(35, '.') + "]");
  CHECK(work_text("verify", gib, 4 * gib, 80).size() == 80);
  CHECK(work_text("verify", 0, 4 * gib, 44) == "verify  0 %  0.00 of 4.00 GiB  [...........]");
  CHECK(work_text("verify", gib, 4 * gib, 40) == "verify  25 %  1.00 of 4.00 GiB");
  CHECK(work_text("verify", gib, 4 * gib, 12) == "verify  25 %");
  CHECK(work_text("diff", 4 * gib, 4 * gib, 200) == "diff  100 %  4.00 of 4.00 GiB  [" + std::string(60, '#') + "]");
  CHECK(work_text("diff", 3, 0, 20) == "diff  100 %  0.00 of");  // no work counts as all done
}

TEST_CASE("a bar appears on a terminal after a while, and is removed at the end") {
  auto const drawn = on_a_terminal(60, [] {
    WorkBar bar{"export", 2 * gib, std::chrono::milliseconds{0}};
    bar.add(gib);
    bar.add(gib / 2);  // too soon to draw again
  });
  CHECK(drawn == "\r\x1b[K" + work_text("export", gib, 2 * gib, 59) + "\r\x1b[K");
  auto const short_work = on_a_terminal(60, [] {
    WorkBar bar{"export", 2 * gib};
    bar.add(gib);
  });
  CHECK(short_work.empty());
  auto const dumb = on_a_terminal(60, [] {
    ::setenv("TERM", "dumb", 1);
    WorkBar bar{"export", 2 * gib, std::chrono::milliseconds{0}};
    bar.add(gib);
    ::setenv("TERM", "xterm", 1);
  });
  CHECK(dumb.empty());
}

}  // namespace
}  // namespace zeroth::testing
