#include "comm/rank_error.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

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
  } catch (std::exception const& error) {
    return make_error(error.what(), false);
  } catch (...) {
    return make_error("something that is no std::exception was thrown", false);
  }
}

void print_error(std::string const& text) noexcept {
  std::fprintf(stderr, "zeroth: %s\n", text.c_str());
  std::fflush(stderr);
}

void flush_output() noexcept {
  std::cout.flush();
  std::fflush(nullptr);
}

void end_process(int status) noexcept {
  flush_output();
  std::_Exit(status);
}

}  // namespace zeroth::comm
