// SPDX-License-Identifier: Apache-2.0
#include "gpu/choice.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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

}  // namespace

MathChoice choose(zeroth::Job& job, std::filesystem::path const& file) {
  auto const text = read(file);
  auto const name = name_of(file, text);
  auto const names = job.all_gather(name);
  for (std::size_t rank = 1; rank < names.size(); ++rank) {
    if (names[rank] != names[0]) {
      throw zeroth::ConfigError{
          fmt::format("--algorithms: the file of rank 0 has the hash {}, that of rank {} {}, but all ranks must round "
                      "alike: give all ranks the same file",
                      names[0], rank, names[rank])};
    }
  }
  if (file.empty()) {
    return {MathLibrary::cublaslt, "cuBLASLt", nullptr};
  }
  return {MathLibrary::cublaslt, fmt::format("cuBLASLt, algorithms {}", name),
          std::make_shared<Algorithms const>(Algorithms::parse(text, file.string()))};
}

}  // namespace gpt::gpu
