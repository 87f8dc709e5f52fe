#include "comm/rank_error.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>

#include "core/standard_streams.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

RankError make_error(std::string what, bool is_peer_error) {
  std::string const prefix = rank_prefix();
  std::string bare = what.starts_with(prefix) ? what.substr(prefix.size()) : what;
  std::string text = what.starts_with("[rank ") ? std::move(what) : prefix + what;
  return {std::move(text), std::move(bare), is_peer_error};
}

}  // namespace

RankError describe_current_exception() {
  try {
    throw;
  } catch (PeerError const& error) {
    return make_error(error.what(), true);
  } catch (std::bad_alloc const&) {
    return make_error(
        "the process is out of memory: run fewer ranks on this machine, a smaller model or batch, or raise the limit "
        "(ulimit -v, a container's memory)",
        false);
  } catch (std::exception const& error) {
    return make_error(error.what(), false);
  } catch (...) {
    return make_error("something that is no std::exception was thrown", false);
  }
}

void print_error(std::string const& text) noexcept {
  try {
    write_error("zeroth: " + text + "\n");
  } catch (std::exception const&) {  // no memory: without what makes it a line
    write_error(text);
  }
}

void flush_output() noexcept {
  if (takes_more(STDOUT_FILENO, Clock::now() + std::chrono::seconds{1})) {  // who ends waits for no reader
    std::cout.flush();
    std::fflush(nullptr);
  }
}

void end_process(int status) noexcept {
  flush_output();
  std::_Exit(status);
}

}  // namespace zeroth::comm
