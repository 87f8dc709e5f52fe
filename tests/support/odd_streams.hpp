// SPDX-License-Identifier: Apache-2.0
/// Standard streams of children that cannot be written to.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/child.hpp"

namespace zeroth::testing {

/// A pipe of this process, which children inherit.
class OddPipe {
 public:
  OddPipe() {
    if (::pipe(ends_.data()) != 0 || ends_[1] > 9) {
      throw std::runtime_error{"no pipe with a number that every shell understands"};
    }
  }
  OddPipe(OddPipe const&) = delete;
  OddPipe& operator=(OddPipe const&) = delete;
  ~OddPipe() {
    read_no_more();
    ::close(ends_[1]);
  }
  void read_no_more() {
    if (ends_[0] >= 0) {
      ::close(ends_[0]);
    }
    ends_[0] = -1;
  }
  void fill() {
    int const flags = ::fcntl(ends_[1], F_GETFL);
    ::fcntl(ends_[1], F_SETFL, flags | O_NONBLOCK);
    std::array<char, 4096> const page{};
    while (::write(ends_[1], page.data(), page.size()) > 0) {
    }
    ::fcntl(ends_[1], F_SETFL, flags);
  }
  /// The shell redirection of `stream` into this pipe.
  [[nodiscard]] std::string takes(int stream) const { return std::to_string(stream) + ">&" + std::to_string(ends_[1]); }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// `options` with the shell redirections of its streams.
[[nodiscard]] inline Child::Options redirected(Child::Options options, std::string const& redirections) {
  std::string words = "exec";
  for (auto const& word : options.command) {
    words += " '" + word + "'";
  }
  options.command = {"/bin/sh", "-c", words + " " + redirections};
  return options;
}

}  // namespace zeroth::testing
