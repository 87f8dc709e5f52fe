// SPDX-License-Identifier: Apache-2.0
/// Standard output that training does not wait for.
#pragma once
#include <memory>
#include <string>
#include <thread>

namespace zeroth {

/// A thread writes what it is given. A reader who is slow, or has stopped to read, as mpirun does when it is about to
/// end its ranks, must not keep a rank from its next step. One thread gives.
class UnhurriedOutput {
 public:
  /// Throws SystemError where there is no thread.
  UnhurriedOutput();
  UnhurriedOutput(UnhurriedOutput const&) = delete;
  UnhurriedOutput& operator=(UnhurriedOutput const&) = delete;
  /// Ends a line that is open. Waits for the reader as long as it goes on reading. What is then missing is counted on
  /// standard error.
  ~UnhurriedOutput();
  /// Is left out, all of it, if more than 64 KiB wait to be read already.
  void write(std::string text);
  /// As write_over() writes, and in place of such a line that nobody has begun to write.
  void write_over(std::string line);

 private:
  struct Queue;
  void add(std::string text, bool is_over);
  std::shared_ptr<Queue> queue_;  // the thread's too, which may be left behind
  std::thread thread_;
};

}  // namespace zeroth
