// SPDX-License-Identifier: Apache-2.0
/// Runs other programs as children of a test.
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
  bool in_time = false;  ///< False if it was killed at the time limit.
  int status = -1;       ///< Its exit status; -1 if a signal ended it.
  int signal = 0;        ///< The signal that ended it; 0 if it exited.
};

/// A child process. The destructor kills it if it still runs.
class Child {
 public:
  struct Options {
    std::vector<std::string> command;
    std::filesystem::path folder;                    ///< Its working folder.
    std::map<std::string, std::string> environment;  ///< In addition to this program's.
    bool on_terminal = false;                        ///< On its own controlling terminal; otherwise on a pipe.
    int columns = 0;                                 ///< Width of that terminal; 0: not set.
  };
  explicit Child(Options const& options);
  ~Child();
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;

  /// Reads until `text` has appeared `times` times on stdout or stderr; false on a timeout, or if the child ended
  /// first.
  [[nodiscard]] bool wait_for(std::string const& text, int times = 1);
  void send(int signal) const;
  /// For a child on a terminal.
  void press_ctrl_c() const;
  /// Reads to the end.
  [[nodiscard]] Ending wait();
  /// stdout and stderr so far, in order of arrival.
  [[nodiscard]] std::string const& output() const noexcept { return output_; }

 private:
  /// Reads available output, until `deadline`; false at its end.
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int pipe_ = -1;  // our end of the pipe, or of the terminal
  std::string output_;
};

[[nodiscard]] std::vector<std::string> words_of(std::string const& text);  ///< Split at single spaces.
[[nodiscard]] int count_of(std::string const& text, std::string const& part);

}  // namespace zeroth::testing
