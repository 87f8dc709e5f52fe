// SPDX-License-Identifier: Apache-2.0
/// Other programs, run as children of a test.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/folder.hpp"

namespace zeroth::testing {

/// How a child ended.
struct Ending {
  bool in_time = false;  ///< Otherwise it was killed.
  int status = -1;       ///< What it exited with; -1 if a signal ended it.
  int signal = 0;        ///< That ended it; 0 if it exited.
};

/// Killed, if it still runs, when this ends.
class Child {
 public:
  struct Options {
    std::vector<std::string> command;
    std::filesystem::path folder;                    ///< Where it runs.
    std::map<std::string, std::string> environment;  ///< In addition to this program's.
    bool on_terminal = false;                        ///< Of its own, which it is controlled by; otherwise on a pipe.
    int columns = 0;                                 ///< Of that terminal; 0: it does not say.
  };
  explicit Child(Options const& options);
  ~Child();
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;

  /// Reads on until `text` has come `times` times on stdout or stderr; false if that took too long, or it ended before.
  [[nodiscard]] bool wait_for(std::string const& text, int times = 1);
  void send(int signal) const;
  /// Of a child on a terminal.
  void press_ctrl_c() const;
  /// Reads to the end.
  [[nodiscard]] Ending wait();
  /// stdout and stderr so far, as they came.
  [[nodiscard]] std::string const& output() const noexcept { return output_; }

 private:
  /// Reads what comes, until `deadline`; false at its end.
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int pipe_ = -1;  // our end of it, or of the terminal
  std::string output_;
};

[[nodiscard]] std::vector<std::string> words_of(std::string const& text);  ///< Between single spaces.
[[nodiscard]] int count_of(std::string const& text, std::string const& part);

}  // namespace zeroth::testing
