// SPDX-License-Identifier: Apache-2.0
/// Shared libraries that are loaded on first use, so that programs start without them.
#pragma once
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace zeroth::device {

/// Looks up a function. Returns false if `library` lacks it.
template <class Function>
[[nodiscard]] bool find_function(Function& function, void* library, char const* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// Loads the first of `files`, at least one, that suits, and never unloads it. `take(library, was_there)` returns the
/// reason why one does not suit, or an empty string; `was_there` says whether it was in this process before. Returns an
/// empty string, or "; " and a reason for each file.
template <class Take>
[[nodiscard]] std::string load_first(std::vector<std::string> const& files, Take const& take) {
  auto const close = [](void* library) { static_cast<void>(::dlclose(library)); };
  using Library = std::unique_ptr<void, decltype(close)>;
  std::string problems;
  for (auto const& file : files) {
    bool const was_there = Library{::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD), close} != nullptr;
    Library library{::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL), close};
    if (library == nullptr) {
      char const* const why = ::dlerror();  // its text names the file
      problems += fmt::format("; {}", why == nullptr ? file : why);
      continue;
    }
    std::string const problem = take(library.get(), was_there);
    if (problem.empty()) {
      static_cast<void>(library.release());  // it may have threads
      return {};
    }
    problems += fmt::format("; {}: {}", file, problem);
  }
  return problems;
}

}  // namespace zeroth::device
