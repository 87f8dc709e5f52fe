// SPDX-License-Identifier: Apache-2.0
/// Reads the stage file together with the options that add to it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/config/config.hpp>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace gpt {

struct StageFileOptions {
  std::filesystem::path config, given;
  std::vector<std::string> set;
  std::optional<std::int64_t> micro_batch, accumulation, warmup;
  std::optional<double> lr, weight_decay;
  std::optional<std::string> dtype;
  bool verbose = false;
};

void declare(CLI::App& app, StageFileOptions& options);

/// Throws ConfigError, also for values left open.
[[nodiscard]] zeroth::Config read_stage_file(StageFileOptions const& options);

/// A line with the reason for each key without effect; empty unless --verbose asks for it.
[[nodiscard]] std::string notes_of(StageFileOptions const& options, zeroth::Config const& config);

}  // namespace gpt
