// SPDX-License-Identifier: Apache-2.0
/// The limit of a process on the size of its files (RLIMIT_FSIZE, ulimit -f), which counts shared memory as well.
#pragma once
#include <csignal>
#include <string>

namespace zeroth {

/// While it lives, calls of this thread that exceed the limit fail with EFBIG alone. Without it SIGXFSZ ends the
/// process as well, before anybody can say why.
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

/// Why a call on a file failed. For EFBIG with the limit, where there is one.
[[nodiscard]] std::string file_error_text(int error);

}  // namespace zeroth
