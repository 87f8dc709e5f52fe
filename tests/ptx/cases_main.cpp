// SPDX-License-Identifier: Apache-2.0
/// main() of the kernels' cases. A run of all of them fails if a kernel was not run, or if a kernel's memory accesses
/// cost more than its figures in the page ZEROTH_PTX_ACCESSES for the architecture ZEROTH_PTX_ARCHITECTURE. If
/// ZEROTH_PTX_WRITE_ACCESSES names a file, the figures are written there instead, for scripts/access_table.py. The
/// environment variable ZEROTH_PTX_EDIT changes a kernel first: its lines are a part of the kernel's name, a regular
/// expression, the replacement, and the index of the match (from 0).
#include <cstdlib>
#include <iostream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "accesses.hpp"
#include "support/catch_runner.hpp"
#include "support/ptx/registered.hpp"

namespace {

namespace ptx = zeroth::testing::ptx;

/// `text` with match number `which` replaced.
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

/// The argument that excludes cases of the host's work, which do not depend on kernels.
constexpr std::string_view host_left_out = "~[host]";

/// Writes the cost of memory accesses, or compares it with the page. Prints differences.
bool accesses_are_known() {
  char const* const page = std::getenv("ZEROTH_PTX_ACCESSES");
  if (page == nullptr) {
    return true;
  }
  if (char const* const file = std::getenv("ZEROTH_PTX_WRITE_ACCESSES")) {
    ptx::write_accesses(file);
    return true;
  }
  auto const slower = ptx::slower_than(page, ptx::architecture());
  for (auto const& line : slower) {
    std::cout << line << '\n';
  }
  return slower.empty();
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
  bool const all = argument_count == 1 || (argument_count == 2 && arguments[1] == host_left_out);
  if (result != 0 || !all) {
    return result;
  }
  auto const left = ptx::never_run();
  for (auto const& kernel : left) {
    std::cout << "no case ran " << kernel << '\n';
  }
  std::cout << ptx::kernel_names().size() - left.size() << " kernels ran\n";
  return left.empty() && accesses_are_known() ? 0 : 1;
}
