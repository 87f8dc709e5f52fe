// SPDX-License-Identifier: Apache-2.0
/// What the reader of the terminal sees.
#pragma once
#include <cstdint>
#include <string>

#include <zeroth/engine/report.hpp>

#include "unhurried_output.hpp"

namespace gpt {

/// One line that is written over on a terminal, one line per step otherwise. Ends its line when it ends.
class Progress {
 public:
  Progress(std::int64_t steps, std::int64_t tokens_per_step);
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress();
  /// Whole lines, below what is there.
  void say(std::string const& lines);
  /// `bytes` is what a rank holds.
  void show(zeroth::StepReport const& step, std::int64_t bytes);

 private:
  std::int64_t steps_, tokens_per_step_;
  bool terminal_, open_ = false;
  UnhurriedOutput output_;
};

}  // namespace gpt
