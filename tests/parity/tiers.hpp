// SPDX-License-Identifier: Apache-2.0
/// Stage files with the optimizer's states on a disk or, with a GPU, in host memory.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "zeroth/config/config.hpp"

namespace zeroth::testing {

/// The part on the disk, and how tiles are read and written.
struct OnDisk {
  double ratio;
  std::int64_t tile;
  bool reads_ahead, writes_behind;
  int buffers;
  int block, requests;
  [[nodiscard]] std::string name() const {
    return fmt::format("ratio {}, tiles of {}, read {}, written {}, {} buffers, {} requests of {} bytes", ratio, tile,
                       reads_ahead ? "ahead" : "late", writes_behind ? "behind" : "at once", buffers, requests, block);
  }
};
inline constexpr OnDisk on_disks[] = {
    {1, 1'000'000'000, true, true, 4, 1 << 20, 8}, {1, 2048, true, true, 4, 4096, 3},
    {0.5, 2048, true, false, 1, 1 << 20, 1},       {0.3, 4096, false, true, 16, 8192, 2},
    {0.75, 1, false, false, 1, 4096, 1},           {1, 2048, true, true, 64, 4096, 8},
};

/// `config` with states in a file in `folder`.
inline Config on_disk(Config const& config, OnDisk const& disk, std::filesystem::path const& folder) {
  return config.with(fmt::format(R"({{"zero_optimization": {{"sub_group_size": {}, "offload_optimizer": {{
      "device": "nvme", "nvme_path": "{}", "ratio": {}, "buffer_count": {}, "pipeline_read": {}, "pipeline_write": {}}}}},
      "aio": {{"block_size": {}, "queue_depth": {}}}}})",
                                 disk.tile, folder.string(), disk.ratio, disk.buffers, disk.reads_ahead,
                                 disk.writes_behind, disk.block, disk.requests));
}

/// The updater of states in host memory, as keys of zeroth.
inline constexpr char const* updaters[] = {R"("offload_update": "device")",
                                           R"("offload_update": "host", "offload_update_threads": 3)"};
inline bool updates_on_host(std::string_view updater) { return updater != updaters[0]; }

/// `config` with states in host memory, if there is a GPU: as many states, in the same tiles.
inline Config in_host_memory(Config const& config, OnDisk const& as, std::string const& updater = updaters[0]) {
  return config.with(fmt::format(R"({{"zero_optimization": {{"sub_group_size": {}, "offload_optimizer": {{
      "device": "cpu", "pin_memory": true, "ratio": {}, "buffer_count": {}, "pipeline_read": {},
      "pipeline_write": {}}}}}, "zeroth": {{{}}}}})",
                                 as.tile, as.ratio, as.buffers, as.reads_ahead, as.writes_behind, updater));
}

/// The part of the parameters' shards in memory, and how the rest is read and written.
struct ParametersOnDisk {
  std::int64_t in_memory, buffer;
  int buffers;
  int block, requests;
  [[nodiscard]] std::string name() const {
    return fmt::format("parameters on the disk but {}, {} buffers of {}, {} requests of {} bytes", in_memory, buffers,
                       buffer, requests, block);
  }
};
inline constexpr ParametersOnDisk parameters_on_disks[] = {
    {0, 100'000'000, 5, 1 << 20, 8}, {0, 2048, 1, 4096, 3}, {700, 1, 3, 8192, 1}, {1500, 4096, 2, 4096, 8}};

/// `config` with shards of parameters in a file in `folder`.
inline Config parameters_on_disk(Config const& config, ParametersOnDisk const& disk,
                                 std::filesystem::path const& folder) {
  return config.with(fmt::format(R"({{"zero_optimization": {{"offload_param": {{
      "device": "nvme", "nvme_path": "{}", "max_in_cpu": {}, "buffer_size": {}, "buffer_count": {}}}}},
      "aio": {{"block_size": {}, "queue_depth": {}}}}})",
                                 folder.string(), disk.in_memory, disk.buffer, disk.buffers, disk.block,
                                 disk.requests));
}

}  // namespace zeroth::testing
