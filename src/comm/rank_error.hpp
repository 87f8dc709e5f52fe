/// What a rank threw, in words.
#pragma once
#include <exception>
#include <string>

namespace zeroth::comm {

struct RankError {
  std::string text;            ///< With the rank in front.
  std::string bare;            ///< Without it.
  bool is_peer_error = false;  ///< Then somebody else is the cause.
};
/// Of the exception that is being handled, on the rank's own thread.
[[nodiscard]] RankError describe_current_exception();

/// One line on stderr: see write_error().
void print_error(std::string const& text) noexcept;
/// Everything that the program has printed, before the process is ended under it; nothing if nobody reads its standard
/// output.
void flush_output() noexcept;
/// After what was printed so far. Destructors and other threads' work are passed over.
[[noreturn]] void end_process(int status) noexcept;

}  // namespace zeroth::comm
