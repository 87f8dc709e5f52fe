// SPDX-License-Identifier: Apache-2.0
/// Reads a pipeline schedule from a file.
#pragma once
#include <filesystem>
#include <vector>

#include "stage/pipeline.hpp"

namespace zeroth::stage {

/// One line per stage, cells separated by commas: the chunk, F, B, I or W (forward, backward, backward for inputs and
/// for weights), and the micro-step, as in "0F3". Empty cells, in which a stage waits, are skipped. PyTorch's pipelines
/// write and read this table. Empty lines and lines that begin with # are skipped. Throws ConfigError, which names the
/// file, the line and the cell. The result has yet to pass check().
[[nodiscard]] std::vector<Actions> read_schedule(std::filesystem::path const& path, PipelineSize const& size);

}  // namespace zeroth::stage
