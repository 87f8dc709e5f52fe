// SPDX-License-Identifier: Apache-2.0
/// The record of a checkpoint, checkpoint.json: what it is of, when it was made, and where everything is in its files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "zeroth/checkpoint/contents.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/data/sample_order.hpp"
#include "zeroth/optim/loss_scale.hpp"

namespace zeroth::checkpoint {

/// How far training has progressed.
struct Position {
  std::int64_t step = 0;  ///< Steps since the beginning of training.
  /// Updates applied: at most one per step, or one per step and worker if workers may be stale. Schedules and bias
  /// corrections count these.
  std::int64_t applied = 0;
  std::int64_t samples = 0;                         ///< Samples used so far, over all ranks.
  std::optional<optim::LossScaleState> loss_scale;  ///< The loss scale of the next step, if it is dynamic.
};

/// The origin of a checkpoint.
struct Origin {
  std::string created;       ///< "2026-01-31T23:59:59Z"
  std::string version;       ///< Zeroth's version.
  std::string host;          ///< Rank 0's host.
  std::int64_t process = 0;  ///< Rank 0's process id.
};

/// The contents of checkpoint.json.
struct Record {
  std::string save_id;                   ///< 32 hexadecimal digits, stored in every file of the checkpoint.
  Position position;                     ///< How far training had progressed.
  std::optional<SampleOrder> order;      ///< The order of the program's data, if the program passed it.
  std::uint64_t model_seed = 0;          ///< Seed of the initial values.
  std::int64_t rounding_seed = 0;        ///< Seed of stochastic rounding.
  std::string optimizer;                 ///< The optimizer's type in a stage file.
  std::string stage_file;                ///< The resolved stage file: Config::to_json().
  std::vector<std::byte> program_state;  ///< The program's own bytes: see SaveOptions.
  Origin origin;                         ///< The origin of the checkpoint.
  Contents contents;                     ///< The location of every state in the files.
};

/// Name of the record's file in a checkpoint's folder.
inline constexpr char const* record_name = "checkpoint.json";
/// Limit on the bytes of a program's state.
inline constexpr std::int64_t largest_program_state = std::int64_t{1} << 20U;

/// Limit on the bytes of checkpoint.json, which has a few hundred for each parameter.
inline constexpr std::int64_t largest_record = 1'000'000'000;

/// Returns the record as text for the file, with a hash of it at the end. Throws SystemError if it exceeds `largest`
/// bytes, which read_record() would reject.
[[nodiscard]] ZEROTH_EXPORT std::string to_text(Record const& record, std::int64_t largest = largest_record);
/// Reads the record in the folder of a checkpoint. Checks its lengths and offsets, so that readers may trust them.
/// Throws DamagedError if the file is missing, damaged or was not written by Zeroth, SystemError if it cannot be read,
/// and ContractError if it has another version's format.
[[nodiscard]] ZEROTH_EXPORT Record read_record(std::filesystem::path const& folder);

}  // namespace zeroth::checkpoint
