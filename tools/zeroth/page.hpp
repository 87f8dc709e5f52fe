// SPDX-License-Identifier: Apache-2.0
/// The output of a command, and its exit status.
#pragma once
#include <string>
#include <string_view>

#include "paper.hpp"

namespace zeroth::tools {

/// Collects the text for standard output.
class Page {
 public:
  explicit Page(Paper const& paper) : paper_{paper} {}
  /// The medium that text is formatted for.
  [[nodiscard]] Paper const& paper() const noexcept { return paper_; }
  void add_text(std::string_view text) { all_ += fold(text, paper_); }  ///< For people.
  void add_data(std::string_view data) { all_ += data; }                ///< For programs: unchanged.
  [[nodiscard]] std::string const& all() const noexcept { return all_; }

  int status = 0;  ///< The program's exit status.

 private:
  Paper paper_;
  std::string all_;
};

}  // namespace zeroth::tools
