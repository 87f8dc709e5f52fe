// SPDX-License-Identifier: Apache-2.0
/// The stage file, with what the command line says beside it.
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

/// Throws ConfigError, also for values that are left open.
[[nodiscard]] zeroth::Config read_stage_file(StageFileOptions const& options);

/// A line for each key that is without effect, with the reason; empty unless --verbose asks for it.
[[nodiscard]] std::string notes_of(StageFileOptions const& options, zeroth::Config const& config);

}  // namespace gpt
