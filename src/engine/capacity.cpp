// SPDX-License-Identifier: Apache-2.0
#include "engine/capacity.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/saver.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::engine {
namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

std::string text_of(std::filesystem::path const& file) {
  try {
    return read_text(file);
  } catch (Unreadable const&) {
    return {};
  }
}

/// The number that follows `name` in lines of names and numbers; without a name, the number at the start of the text.
std::optional<std::uint64_t> number_in(std::string_view text, std::string_view name = {}) {
  for (std::size_t at = 0; at < text.size();) {
    auto const line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (!line.starts_with(name)) {
      continue;
    }
    auto const digit = line.find_first_of("0123456789", name.size());
    std::uint64_t value = 0;
    if (digit != std::string_view::npos &&
        std::from_chars(line.data() + digit, line.data() + line.size(), value).ec == std::errc{}) {
      return value;
    }
  }
  return std::nullopt;
}

/// Memory that a control group still allows its processes. The page cache counts as free.
std::uint64_t left_in_group(std::filesystem::path const& folder, char const* limit_file, char const* usage_file) {
  auto const limit = number_in(text_of(folder / limit_file));
  auto const usage = number_in(text_of(folder / usage_file));
  if (!limit || !usage) {
    return unlimited;  // "max", or the files are missing
  }
  auto const statistics = text_of(folder / "memory.stat");
  auto const cache =
      number_in(statistics, "inactive_file ").value_or(0) + number_in(statistics, "active_file ").value_or(0);
  auto const used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

/// The minimum over all groups that contain the process, and their parents.
std::uint64_t left_in_groups() {
  std::uint64_t left = unlimited;
  auto const mine = text_of("/proc/self/cgroup");
  for (std::string_view rest = mine; !rest.empty();) {  // "0::/a/b" or "4:memory:/a/b"
    auto const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    auto const second = line.find(':', line.find(':') + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    bool const first_version = line.find(":memory:") != std::string_view::npos;
    if (!first_version && !line.starts_with("0::")) {
      continue;
    }
    std::filesystem::path const root = first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    for (std::filesystem::path at{line.substr(second + 1)};; at = at.parent_path()) {
      auto const folder = root / at.relative_path();
      left = std::min(left, first_version ? left_in_group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes")
                                          : left_in_group(folder, "memory.max", "memory.current"));
      if (!at.has_relative_path()) {
        break;
      }
    }
  }
  return left;
}

std::uint64_t left_by_limit(int resource, std::uint64_t used) {
  struct rlimit limit {};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return unlimited;
  }
  return limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, used);
}

std::string mebibytes(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20); }

/// Settings that take less memory, other than a higher stage.
std::string what_holds_less(shard::MemoryPlan const& plan, Settings const& settings) {
  if (settings.offload.optimizer == OffloadDevice::nvme) {
    bool const more = settings.stage == 3 && settings.offload.parameters != OffloadDevice::nvme;
    return fmt::format("a smaller zero_optimization.sub_group_size or a higher ratio needs less{}",
                       more ? ", as does zero_optimization.offload_param with device \"nvme\"" : "");
  }
  if (plan.disk.host_tiles >= 0) {
    return "a lower zero_optimization.offload_optimizer.ratio or a smaller sub_group_size needs less";
  }
  if (plan.disk.tier == shard::Tier::host) {
    return "a lower zero_optimization.offload_optimizer.ratio needs less";
  }
  return fmt::format("zero_optimization.offload_optimizer with device \"nvme\" moves {} of each rank's to a disk",
                     mebibytes(static_cast<std::uint64_t>(plan.bytes.optimizer)));
}

struct Disk {
  std::uint64_t left = unlimited;
  std::optional<std::uint64_t> number{};  ///< Identifies the disk. Empty if unknown: creating the file reports the
                                          ///< reason.
};

Disk disk_of(std::filesystem::path const& folder) {
  struct statvfs system {};
  struct stat status {};
  if (folder.empty() || ::statvfs(folder.c_str(), &system) != 0 || ::stat(folder.c_str(), &status) != 0) {
    return {};
  }
  return {static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize, std::uint64_t{status.st_dev}};
}

/// Number of ranks on a machine, and the sum of their needs.
struct Together {
  std::uint64_t ranks = 0;
  Needs needs;
  bool alike = true;  ///< All ranks need the same.

  void add(Needs const& more) {
    alike = alike && more.memory * ranks == needs.memory && more.disk * ranks == needs.disk &&
            more.parameters_disk * ranks == needs.parameters_disk;
    ++ranks;
    needs.memory += more.memory;
    needs.disk += more.disk;
    needs.parameters_disk += more.parameters_disk;
  }
  /// "the plan asks for 100.0 MiB of memory for each of 2 ranks on the machine of rank 0", or the sum if ranks differ.
  [[nodiscard]] std::string asked(std::uint64_t all, std::string const& what, std::size_t rank) const {
    auto const counted = ranks == 1 ? "1 rank" : fmt::format("{} ranks", ranks);
    return alike ? fmt::format("the plan needs {} {} for each of {} on rank {}'s machine", mebibytes(all / ranks), what,
                               counted, rank)
                 : fmt::format("the plans of {} on rank {}'s machine, of several pipeline stages, need {} {} together",
                               counted, rank, mebibytes(all), what);
  }
};

}  // namespace

Capacity measure_capacity(std::filesystem::path const& folder, std::filesystem::path const& of_parameters) {
  constexpr std::uint64_t kibi = 1024;
  auto const available = number_in(text_of("/proc/meminfo"), "MemAvailable:");
  auto const status = text_of("/proc/self/status");
  Capacity result;
  result.memory_of_machine = std::min(available ? *available * kibi : unlimited, left_in_groups());
  result.memory_of_process = std::min(left_by_limit(RLIMIT_AS, number_in(status, "VmSize:").value_or(0) * kibi),
                                      left_by_limit(RLIMIT_DATA, number_in(status, "VmData:").value_or(0) * kibi));
  auto const disk = disk_of(folder);
  auto const parameters_disk = disk_of(of_parameters);
  result.disk = disk.left;
  result.parameters_disk = parameters_disk.left;
  result.one_disk = disk.number && disk.number == parameters_disk.number;
  return result;
}

std::string make_folders(Settings const& settings) {
  std::filesystem::path const none;
  bool const has_activations = settings.activations.offload == ActivationOffload::nvme;
  for (auto const& [section, folder] :
       {std::pair{"zero_optimization.offload_optimizer", &settings.offload.folder},
        std::pair{"zero_optimization.offload_param", &settings.offload.parameter_folder},
        std::pair{"zeroth.activation_checkpointing", has_activations ? &settings.activations.nvme_path : &none}}) {
    if (folder->empty()) {
      continue;
    }
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    if (!error && ::access(folder->c_str(), W_OK | X_OK) != 0) {
      error = {errno, std::generic_category()};
    }
    if (error) {
      return fmt::format("{}.nvme_path: cannot create a file in {}: {}", section, folder->string(), error.message());
    }
  }
  return {};
}

namespace {

std::uint64_t bytes_for_saves(Settings const& settings) {
  auto const buffer = settings.checkpoint.buffer_bytes;
  return buffer > 0 ? static_cast<std::uint64_t>(checkpoint::staging_bytes(true, buffer)) : 0;
}

/// If the offload tier is host memory, everything else is in a GPU's memory.
bool beside_gpu(shard::MemoryPlan const& plan) noexcept { return plan.disk.tier == shard::Tier::host; }

std::string shortage_of_memory(shard::MemoryPlan const& plan, Settings const& settings, Together const& here,
                               std::uint64_t here_bytes, std::size_t rank, std::string const& left) {
  auto const staging = bytes_for_saves(settings);
  auto const kind = fmt::format("of {}{}", beside_gpu(plan) ? "pinned host memory" : "memory",
                                staging > 0 ? fmt::format(", {} of it for saves (zeroth.checkpoint.buffer_bytes),",
                                                          mebibytes(here.alike ? staging : staging * here.ranks))
                                            : "");
  return fmt::format("{}, but {}; {}{}", here.asked(here_bytes, kind, rank), left, what_holds_less(plan, settings),
                     settings.stage == 3 ? "; `zeroth plan --device-memory` shows what fits"
                                         : "; a higher zero_optimization.stage needs less");
}

/// Message for a disk with less space than ranks ask for.
std::string shortage_of_disk(Together const& here, std::uint64_t bytes, std::uint64_t left, std::string const& folders,
                             std::size_t rank, std::string_view advice) {
  return fmt::format("{}, but {} are free; {}", here.asked(bytes, fmt::format("of disk in {}", folders), rank),
                     mebibytes(left), advice);
}

}  // namespace

Needs needs_of(shard::MemoryPlan const& plan, Settings const& settings) {
  bool const beside = beside_gpu(plan);
  return {
      .memory = static_cast<std::uint64_t>(beside ? plan.disk.bytes : plan.bytes.total()) + bytes_for_saves(settings),
      .disk = beside ? 0 : static_cast<std::uint64_t>(plan.disk.bytes),
      .parameters_disk = static_cast<std::uint64_t>(plan.parameters_disk.bytes)};
}

std::string shortage(shard::MemoryPlan const& plan, Settings const& settings, std::span<RankCapacity const> ranks,
                     bool in_one_process) {
  std::map<std::uint64_t, Together> on_machine;
  Together everywhere;
  for (auto const& rank : ranks) {
    on_machine[rank.machine].add(rank.needs);
    everywhere.add(rank.needs);
  }
  auto const& offload = settings.offload;
  auto const of_states = fmt::format("{} (zero_optimization.offload_optimizer.nvme_path)", offload.folder.string());
  auto const of_parameters =
      fmt::format("{} (zero_optimization.offload_param.nvme_path)", offload.parameter_folder.string());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto const& [machine, capacity, own] = ranks[i];
    auto const& here = on_machine[machine];
    if (capacity.memory_of_process < (in_one_process ? everywhere.needs.memory : own.memory)) {
      bool const alone = !in_one_process || ranks.size() == 1;
      return shortage_of_memory(
          plan, settings, here, here.needs.memory, i,
          fmt::format("{} are available within the limits of {} (ulimit -v, ulimit -d)",
                      mebibytes(capacity.memory_of_process), alone ? "its process" : "the process of all ranks"));
    }
    if (capacity.memory_of_machine < here.needs.memory) {
      return shortage_of_memory(plan, settings, here, here.needs.memory, i,
                                fmt::format("{} are available there (free memory, and control groups' limits)",
                                            mebibytes(capacity.memory_of_machine)));
    }
    auto const& needs = here.needs;
    if (capacity.one_disk && capacity.disk < needs.disk + needs.parameters_disk) {
      return shortage_of_disk(here, needs.disk + needs.parameters_disk, capacity.disk,
                              fmt::format("{} and {}", of_states, of_parameters), i,
                              "a lower ratio or a higher max_in_cpu needs less");
    }
    if (capacity.disk < needs.disk) {
      return shortage_of_disk(here, needs.disk, capacity.disk, of_states, i, "a lower ratio needs less");
    }
    if (capacity.parameters_disk < needs.parameters_disk) {
      return shortage_of_disk(here, needs.parameters_disk, capacity.parameters_disk, of_parameters, i,
                              "a higher max_in_cpu needs less");
    }
  }
  return {};
}

}  // namespace zeroth::engine
