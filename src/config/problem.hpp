/// What is wrong with a stage file, collected so that all of it is said at once.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::config {

struct Problem {
  std::string path;  ///< "zero_optimization.stage"; empty for the text as a whole.
  int line = 0;      ///< From 1; 0 where the file has no such key.
  std::string text;
};
using Problems = std::vector<Problem>;

/// Throws one ConfigError with a line per problem, in the order of the file, headed by the name of the file; returns if
/// there are none.
void throw_if_any(std::string_view source, Problems problems);

}  // namespace zeroth::config
