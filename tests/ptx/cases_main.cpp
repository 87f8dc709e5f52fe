// SPDX-License-Identifier: Apache-2.0
/// main() of the kernels' cases. A run of all of them fails if there is a kernel that none ran. The environment
/// variable ZEROTH_PTX_EDIT changes a kernel first: its lines are a part of the kernel's name, a regular expression,
/// what replaces its matches, and which match (from 0).
#include <cstdlib>
#include <iostream>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "support/catch_runner.hpp"
#include "support/ptx/registered.hpp"

namespace {

namespace ptx = zeroth::testing::ptx;

/// `text` with another instead of the match number `which`.
std::string edited(std::string const& text, std::regex const& pattern, std::string const& replacement, int which) {
  auto match = std::sregex_iterator{text.begin(), text.end(), pattern};
  for (; match != std::sregex_iterator{}; ++match) {
    if (which-- == 0) {
      auto const begin = static_cast<std::size_t>(match->position());
      return text.substr(0, begin) + match->format(replacement) + match->suffix().str();
    }
  }
  throw std::runtime_error{"ZEROTH_PTX_EDIT: there is no such match"};
}

void edit(std::string const& lines) {
  std::istringstream stream{lines};
  std::string kernel, pattern, replacement, which;
  std::getline(stream, kernel);
  std::getline(stream, pattern);
  std::getline(stream, replacement);
  std::getline(stream, which);
  ptx::edit_kernel(kernel, [&](std::string const& text) {
    return edited(text, std::regex{pattern}, replacement, std::stoi(which));
  });
}

}  // namespace

int main(int argument_count, char** arguments) {
  try {
    if (char const* const lines = std::getenv("ZEROTH_PTX_EDIT")) {
      edit(lines);
    }
  } catch (std::exception const& error) {
    std::cout << error.what() << '\n';
    return 1;
  }
  int const result = zeroth::testing::run_cases(argument_count, arguments);
  if (result != 0 || argument_count > 1) {  // some of the cases only
    return result;
  }
  auto const left = ptx::never_run();
  for (auto const& kernel : left) {
    std::cout << "no case ran " << kernel << '\n';
  }
  std::cout << ptx::kernel_names().size() - left.size() << " kernels ran\n";
  return left.empty() ? 0 : 1;
}
