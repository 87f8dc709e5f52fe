// SPDX-License-Identifier: Apache-2.0
#include "gpu/choice.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/input_file.hpp>

#include "gpu/algorithms.hpp"

namespace gpt::gpu {

namespace {

std::string read(std::filesystem::path const& file) {
  if (file.empty()) {
    return {};
  }
  try {
    return zeroth::read_text(file);
  } catch (zeroth::Unreadable const& error) {
    throw zeroth::ConfigError{fmt::format("--algorithms {}: {}", file.string(), error.what())};
  }
}

/// FNV-1a of a file, in hexadecimal; "none" if there is no file.
std::string name_of(std::filesystem::path const& file, std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (char const c : text) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 1099511628211U;
  }
  return file.empty() ? "none" : fmt::format("{:016x}", hash);
}

/// Throws ConfigError on all ranks if one of them has something else than rank 0.
void expect_same(zeroth::Job& job, std::string const& own, char const* what, char const* remedy) {
  auto const all = job.all_gather(own);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      throw zeroth::ConfigError{fmt::format("{} {}, that of rank {} {}, but all ranks must round alike: {}", what,
                                            all[0], rank, all[rank], remedy)};
    }
  }
}

}  // namespace

MathChoice choose(zeroth::Job& job, std::filesystem::path const& file, std::string const& attention) {
  auto const text = read(file);
  auto const name = name_of(file, text);
  expect_same(job, name, "--algorithms: the file of rank 0 has the hash", "give all ranks the same file");
  std::string words = file.empty() ? "cuBLASLt" : fmt::format("cuBLASLt, algorithms {}", name);
  expect_same(job, attention, "--attention: the library of rank 0 is", "install the same on all machines");
  if (!attention.empty()) {
    words += ", attention by " + attention;
  }
  auto algorithms = file.empty() ? nullptr : std::make_shared<Algorithms const>(Algorithms::parse(text, file.string()));
  return {MathLibrary::cublaslt, words, std::move(algorithms)};
}

}  // namespace gpt::gpu
