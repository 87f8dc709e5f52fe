// SPDX-License-Identifier: Apache-2.0
/// Whether there is room for what a plan asks for: memory and disk that this machine has left.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "shard/memory_plan.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::engine {

/// Bytes that are left: as a rank sees it, and sends it to the others. Where nothing is known, as many as can be.
struct Capacity {
  std::uint64_t memory_of_machine = 0;  ///< Of its memory, and of the control groups that this process is in.
  std::uint64_t memory_of_process = 0;  ///< By its limits (ulimit -v, ulimit -d).
  std::uint64_t disk = 0;               ///< Of the file system of the folder for the optimizer's states.
  std::uint64_t parameters_disk = 0;    ///< Likewise for parameters.
  bool one_disk = false;                ///< Is that the same?
};
/// Folders are empty where nothing is to be on a disk.
[[nodiscard]] Capacity measure_capacity(std::filesystem::path const& folder,
                                        std::filesystem::path const& of_parameters = {});

/// Makes the folders of what is offloaded to disks where they are not there. Empty, or which key names a folder where
/// no file can be made, and why.
[[nodiscard]] std::string make_folders(OffloadSettings const& offload);

/// Bytes that a rank takes of its machine.
struct Needs {
  std::uint64_t memory = 0;           ///< What saves will hold included.
  std::uint64_t disk = 0;             ///< For the optimizer's states.
  std::uint64_t parameters_disk = 0;  ///< Likewise for parameters.
  friend bool operator==(Needs const&, Needs const&) = default;
};
/// Of a rank that holds `plan`.
[[nodiscard]] Needs needs_of(shard::MemoryPlan const& plan, Settings const& settings);

/// A rank, as all know it.
struct RankCapacity {
  std::uint64_t machine = 0;  ///< The same for ranks of one.
  Capacity capacity;
  Needs needs = {};

  static constexpr std::size_t count = 9;  ///< Of numbers().
  /// What ranks send each other.
  [[nodiscard]] std::array<std::uint64_t, count> numbers() const noexcept {
    return {machine,
            capacity.memory_of_machine,
            capacity.memory_of_process,
            capacity.disk,
            capacity.parameters_disk,
            capacity.one_disk,
            needs.memory,
            needs.disk,
            needs.parameters_disk};
  }
  [[nodiscard]] static RankCapacity of(std::span<std::uint64_t const, count> numbers) noexcept {
    return {numbers[0],
            {numbers[1], numbers[2], numbers[3], numbers[4], numbers[5] != 0},
            {numbers[6], numbers[7], numbers[8]}};
  }
};
/// What of a machine there is not enough of for `ranks`, which are those of the job: which, how much, what limits it,
/// and what to do, for one that holds `plan`. Empty if there is. The same on all ranks of one stage of a pipeline.
/// `in_one_process` is whether all ranks are.
[[nodiscard]] std::string shortage(shard::MemoryPlan const& plan, Settings const& settings,
                                   std::span<RankCapacity const> ranks, bool in_one_process);

}  // namespace zeroth::engine
