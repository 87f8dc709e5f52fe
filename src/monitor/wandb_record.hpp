// SPDX-License-Identifier: Apache-2.0
/// The file that Weights & Biases keeps of a run that is offline, as far as numbers need it: LevelDB's log of records
/// in blocks of 32 KiB, behind 7 bytes of its own; each record holds one message Record of wandb_internal.proto.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "zeroth/monitor/monitor.hpp"

namespace zeroth::monitor {

/// Bytes of a file, in order: begin() first.
class WandbLog {
 public:
  [[nodiscard]] std::string begin();  ///< The 7 bytes.
  /// `message` is a Record without its number, which it gets.
  [[nodiscard]] std::string record(std::string_view message);

 private:
  std::int64_t number_ = 0;
  std::size_t in_block_ = 0;  // bytes
};

/// A Record of what the run is.
[[nodiscard]] std::string wandb_run(WandbSettings const& settings, std::string_view id, std::string_view host,
                                    std::int64_t start_seconds);
/// A Record of one step's numbers, which have one number of samples. What JSON has no number for is a text, as wandb
/// has it.
[[nodiscard]] std::string wandb_history(std::span<MonitorEvent const> events, double wall_seconds, double run_seconds);
/// A Record of a run's end.
[[nodiscard]] std::string wandb_exit(std::int64_t run_seconds);

}  // namespace zeroth::monitor
