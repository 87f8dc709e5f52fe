// SPDX-License-Identifier: Apache-2.0
/// A schedule of a pipeline that a program or a person has made.
#pragma once
#include <filesystem>
#include <vector>

#include "stage/pipeline.hpp"

namespace zeroth::stage {

/// A line for each stage, cells by commas: the chunk, F, B, I or W (forward, backward, backward by inputs and by
/// weights), and the micro-step, as in "0F3". Empty cells, in which a stage waits, are passed over. That is the table
/// which PyTorch's pipelines write and read. Lines that are empty, and those that begin with #, are passed over too.
/// Throws ConfigError, which names the file, the line and the cell; check() is still to come.
[[nodiscard]] std::vector<Actions> read_schedule(std::filesystem::path const& path, PipelineSize const& size);

}  // namespace zeroth::stage
