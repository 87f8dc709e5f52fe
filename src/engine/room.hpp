// SPDX-License-Identifier: Apache-2.0
/// Whether there is room for what a plan asks for: memory and disk that this machine has left.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "shard/memory_plan.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::engine {

/// Bytes that are left: as a rank sees it, and sends it to the others. Where nothing is known, as many as can be.
struct Room {
  std::uint64_t memory_of_machine = 0;  ///< Of its memory, and of the control groups that this process is in.
  std::uint64_t memory_of_process = 0;  ///< By its limits (ulimit -v, ulimit -d).
  std::uint64_t disk = 0;               ///< Of the file system of the folder for the optimizer's states.
  std::uint64_t parameters_disk = 0;    ///< Likewise for parameters.
  bool one_disk = false;                ///< Is that the same?
};
/// Folders are empty where nothing is to be on a disk.
[[nodiscard]] Room room(std::filesystem::path const& folder, std::filesystem::path const& of_parameters = {});

/// Makes the folders of what is offloaded to disks where they are not there. Empty, or which key names a folder where
/// no file can be made, and why.
[[nodiscard]] std::string make_folders(OffloadSettings const& offload);

/// A rank, as all know it.
struct RankRoom {
  std::uint64_t machine = 0;  ///< The same for ranks of one.
  Room room;
};
/// What of this machine there is not enough of for ranks that each hold `plan`: which, how much, what limits it, and
/// what to do. Empty if there is. The same on all ranks. `in_one_process` is whether all ranks are.
[[nodiscard]] std::string shortage(shard::MemoryPlan const& plan, Settings const& settings,
                                   std::span<RankRoom const> ranks, bool in_one_process);

}  // namespace zeroth::engine
