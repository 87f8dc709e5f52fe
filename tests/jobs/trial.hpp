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

/// How a job came out: as it had to unless `difference` says otherwise.
struct Outcome {
  std::string difference;
  bool refused = false;  ///< As documented: neither trained nor compared.
};

/// Where a job has its folder: in memory, which waits for no disk, if the machine has such a file system.
[[nodiscard]] std::filesystem::path files_in_memory();
[[nodiscard]] std::filesystem::path files_of(Drawn const& drawn);

/// As threads of this process. Files are in `folder`, which is there.
[[nodiscard]] Outcome try_on_threads(Drawn const& drawn, Folder const& folder);
/// Stage 0 in memory, on threads of this process.
[[nodiscard]] Record reference_of(Drawn const& drawn, std::filesystem::path const& folder);
/// What a failure prints.
[[nodiscard]] std::string page_of(Drawn const& drawn, std::string const& difference);

}  // namespace zeroth::testing::jobs
