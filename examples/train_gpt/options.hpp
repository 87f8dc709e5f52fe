// SPDX-License-Identifier: Apache-2.0
/// The command line.
#pragma once
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>

#include <zeroth/comm/job.hpp>

#include "batches.hpp"
#include "math_library.hpp"
#include "model_folder.hpp"
#include "stage_file.hpp"

namespace gpt {

/// The value of --resume for the newest checkpoint in --checkpoint, if there is one.
inline constexpr char const* resume_newest = "auto";

struct Options {
  StageFileOptions stage_file;
  std::filesystem::path data;
  std::optional<int> ranks;
  std::int64_t steps = 100;
  std::int64_t grace_s = 10, join_timeout_s = 300;
  ShapeOptions shape;
  std::uint64_t seed = 0;
  float dropout = 0;
  Order order = Order::sequential;
  std::filesystem::path report, trace, save_initial, save_final, init;
  std::filesystem::path checkpoint;  ///< Folder of checkpoints; empty: saves none.
  std::filesystem::path resume;      ///< A checkpoint, a folder of them, or resume_newest; empty: starts from the
                                     ///< beginning.
  std::optional<std::int64_t> save_every, keep;
  std::optional<double> save_every_s;  // set by --save-every with a unit of time, instead of save_every
  int max_restarts = 0;
  std::optional<double> peak_tflops;  ///< Per rank; nullopt: unknown.
  std::optional<zeroth::comm::Transport> transport;
  zeroth::DeviceKind device = zeroth::DeviceKind::cpu;
  bool plan = false, recompute = false, share_devices = false, tf32 = false, show_products = false, step_graph = false;
  MathLibrary math = MathLibrary::automatic;
  AttentionLibrary attention = AttentionLibrary::own;
  std::filesystem::path algorithms;  ///< File of cuBLASLt's algorithms; empty: cuBLASLt chooses.
};

struct CommandLine {
  std::optional<Options> options;  ///< nullopt if there is nothing to run: help was asked for, or an option is wrong.
  int exit_status = 0;             ///< Exit status in that case: 0 or 2.
};
/// Prints help to `out` and errors to `err`.
[[nodiscard]] CommandLine parse(int argc, char const* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gpt
