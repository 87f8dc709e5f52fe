// SPDX-License-Identifier: Apache-2.0
/// Standard output that training does not wait for.
#pragma once
#include <memory>
#include <string>
#include <thread>

namespace zeroth {

/// A thread writes the text. A reader that is slow, or has stopped reading (as mpirun does when it is about to end its
/// ranks), must not keep a rank from its next step. Only one thread may call.
class UnhurriedOutput {
 public:
  /// Throws SystemError if no thread can be started.
  UnhurriedOutput();
  UnhurriedOutput(UnhurriedOutput const&) = delete;
  UnhurriedOutput& operator=(UnhurriedOutput const&) = delete;
  /// Ends an open line, and waits for the reader as long as it keeps reading. Reports on standard error how much was
  /// not written.
  ~UnhurriedOutput();
  /// Queues `text`, or drops all of it if more than 64 KiB are queued already.
  void write(std::string text);
  /// Queues a line as zeroth::write_over() writes it. Replaces such a line that is queued but not being written yet.
  void write_over(std::string line);

 private:
  struct Queue;
  void add(std::string text, bool is_over);
  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this
  std::thread thread_;
};

}  // namespace zeroth
