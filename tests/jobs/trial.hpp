// SPDX-License-Identifier: Apache-2.0
/// A drawn job and its reference, run and compared.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "jobs/drawn.hpp"
#include "jobs/record.hpp"
#include "support/folder.hpp"

namespace zeroth::testing::jobs {

/// The outcome of a job. It is right if `difference` is empty.
struct Outcome {
  std::string difference;
  bool refused = false;  ///< Rejected as documented: neither trained nor compared.
};

/// The folder for jobs: in a file system in memory if the machine has one, so that they do not wait for a disk.
[[nodiscard]] std::filesystem::path files_in_memory();
[[nodiscard]] std::filesystem::path files_of(Drawn const& drawn);

/// Runs a job as threads of this process. Files are in `folder`, which exists.
[[nodiscard]] Outcome try_on_threads(Drawn const& drawn, Folder const& folder);
/// Stage 0 in memory, on threads of this process.
[[nodiscard]] Record reference_of(Drawn const& drawn, std::filesystem::path const& folder);
/// The text that a failure prints.
[[nodiscard]] std::string page_of(Drawn const& drawn, std::string const& difference);

}  // namespace zeroth::testing::jobs
