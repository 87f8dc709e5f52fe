// SPDX-License-Identifier: Apache-2.0
/// checkpoint.json: what a checkpoint is of, when it was made, and where everything is in its files.
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

/// How far training has come.
struct Position {
  std::int64_t step = 0;                            ///< Steps, from the beginning of training.
  std::int64_t applied = 0;                         ///< Updates among them: what schedules and bias corrections count.
  std::int64_t samples = 0;                         ///< That they have taken, over all ranks.
  std::optional<optim::LossScaleState> loss_scale;  ///< Of the next step, where it is dynamic.
};

/// By whom it was made.
struct Origin {
  std::string created;       ///< "2026-01-31T23:59:59Z"
  std::string version;       ///< Of Zeroth.
  std::string host;          ///< Of rank 0.
  std::int64_t process = 0;  ///< Of rank 0.
};

/// All of checkpoint.json.
struct Record {
  std::string save_id;                   ///< 32 hexadecimal digits, which every file of the checkpoint has.
  Position position;                     ///< See there.
  std::optional<SampleOrder> order;      ///< Of the program's data, where it told.
  std::uint64_t model_seed = 0;          ///< Of the initial values.
  std::int64_t rounding_seed = 0;        ///< Of stochastic rounding.
  std::string optimizer;                 ///< Its type in a stage file.
  std::string stage_file;                ///< The resolved one: Config::to_json().
  std::vector<std::byte> program_state;  ///< Whatever the program gave: see SaveOptions.
  Origin origin;                         ///< See there.
  Contents contents;                     ///< See there.
};

/// Its name in the folder of a checkpoint.
inline constexpr char const* record_name = "checkpoint.json";
/// Bytes of a program's state.
inline constexpr std::int64_t largest_program_state = std::int64_t{1} << 20U;

/// Bytes of checkpoint.json: it has some hundred for each parameter.
inline constexpr std::int64_t largest_record = 1'000'000'000;

/// As it is on the disk, with a hash of itself at its end. Throws SystemError where it has more than `largest` bytes,
/// which read_record() would refuse.
[[nodiscard]] ZEROTH_EXPORT std::string to_text(Record const& record, std::int64_t largest = largest_record);
/// Reads the record in the folder of a checkpoint. Its lengths and places are checked, so that readers may trust them.
/// Throws DamagedError if the file is missing, damaged or written by no version of Zeroth, SystemError if it cannot be
/// read, and ContractError if another version's format is in it.
[[nodiscard]] ZEROTH_EXPORT Record read_record(std::filesystem::path const& folder);

}  // namespace zeroth::checkpoint
