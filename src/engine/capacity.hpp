// SPDX-License-Identifier: Apache-2.0
/// Checks that a machine has enough free memory and disk for a plan.
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

/// Free bytes as this rank sees them, sent to the others. The maximum value means unknown.
struct Capacity {
  std::uint64_t memory_of_machine = 0;  ///< Free in the machine and in this process's control groups.
  std::uint64_t memory_of_process = 0;  ///< Allowed by its limits (ulimit -v, ulimit -d).
  std::uint64_t disk = 0;               ///< Free in the file system of the optimizer states' folder.
  std::uint64_t parameters_disk = 0;    ///< Free in the file system of the parameters' folder.
  bool one_disk = false;                ///< Whether both folders are on the same file system.
};
/// A folder is empty if nothing is offloaded to a disk.
[[nodiscard]] Capacity measure_capacity(std::filesystem::path const& folder,
                                        std::filesystem::path const& of_parameters = {});

/// Creates missing folders for states and activations that are offloaded to disks. Returns an empty string, or a
/// message with the key of the folder that cannot be written to and the reason.
[[nodiscard]] std::string make_folders(Settings const& settings);

/// Bytes that a rank needs on its machine.
struct Needs {
  std::uint64_t memory = 0;           ///< Includes the buffers of saves.
  std::uint64_t disk = 0;             ///< For the optimizer's states.
  std::uint64_t parameters_disk = 0;  ///< For parameters.
  friend bool operator==(Needs const&, Needs const&) = default;
};
/// The needs of a rank that holds `plan`.
[[nodiscard]] Needs needs_of(shard::MemoryPlan const& plan, Settings const& settings);

/// Machine, capacity and needs of a rank, as all ranks know them.
struct RankCapacity {
  std::uint64_t machine = 0;  ///< An id; ranks on one machine have the same.
  Capacity capacity;
  Needs needs = {};

  static constexpr std::size_t count = 9;  ///< Length of numbers().
  /// The form in which ranks send it to each other.
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
/// A message if a machine has too little for its ranks: what is short, by how much, which limit applies, and what to do
/// for a rank that holds `plan`. Empty if everything fits. `ranks` are those of the job. The message is the same on all
/// ranks of one pipeline stage. `in_one_process`: all ranks are threads of one process.
[[nodiscard]] std::string shortage(shard::MemoryPlan const& plan, Settings const& settings,
                                   std::span<RankCapacity const> ranks, bool in_one_process);

}  // namespace zeroth::engine
