// SPDX-License-Identifier: Apache-2.0
/// What a command prints, and its exit status.
#pragma once
#include <string>
#include <string_view>

#include "paper.hpp"

namespace zeroth::tools {

/// Of standard output.
class Page {
 public:
  explicit Page(Paper const& paper) : paper_{paper} {}
  /// What text is made for.
  [[nodiscard]] Paper const& paper() const noexcept { return paper_; }
  void add_text(std::string_view text) { all_ += fold(text, paper_); }  ///< For people.
  void add_data(std::string_view data) { all_ += data; }                ///< For programs: as it is.
  [[nodiscard]] std::string const& all() const noexcept { return all_; }

  int status = 0;  ///< What the program exits with.

 private:
  Paper paper_;
  std::string all_;
};

}  // namespace zeroth::tools
