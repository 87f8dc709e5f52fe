// SPDX-License-Identifier: Apache-2.0
/// The limit of a process on the size of its files (RLIMIT_FSIZE, ulimit -f). It applies to shared memory as well.
#pragma once
#include <csignal>
#include <string>

namespace zeroth {

/// While it lives, calls of this thread that exceed the limit only fail with EFBIG. Otherwise SIGXFSZ also ends the
/// process, before the error can be reported.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() noexcept;
  NoFileSizeSignal(NoFileSizeSignal const&) = delete;
  NoFileSizeSignal& operator=(NoFileSizeSignal const&) = delete;
  ~NoFileSizeSignal();  ///< Leaves errno as it is.

 private:
  sigset_t before_;
  bool was_pending_;
};

/// The reason why a call on a file failed. For EFBIG it includes the limit, if there is one.
[[nodiscard]] std::string file_error_text(int error);

}  // namespace zeroth
