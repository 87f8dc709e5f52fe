// SPDX-License-Identifier: Apache-2.0
#include "config/named_rules.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace zeroth::config {
namespace {

/// DeepSpeed's older boolean for the device of `section` must not be given together with that section.
template <Path older>
std::string older_word_is_alone(Values const& values, std::string_view section) {
  return values.says<older>() && values.file_has(fmt::format("{}.", section))
             ? fmt::format("is DeepSpeed's former key for {}, which is set too; keep one", section)
             : std::string{};
}

/// A device of "nvme" needs a folder.
template <Path device, Path folder>
std::string disk_has_a_folder(Values const& values) {
  if (values.get<device>() != "nvme") {
    return {};
  }
  auto const& path = values.entries[index_of<folder>].value;
  auto const* const text = path ? std::get_if<std::string_view>(&*path) : nullptr;
  auto const key = keys[index_of<device>].path;
  return text != nullptr && !text->empty()
             ? std::string{}
             : fmt::format("missing; {} \"nvme\" needs a folder on a disk", key.substr(key.find('.') + 1));
}

}  // namespace

std::string state_offload_is_said_once(Values const& values) {
  return older_word_is_alone<"zero_optimization.cpu_offload">(values, "zero_optimization.offload_optimizer");
}

std::string param_offload_is_said_once(Values const& values) {
  return older_word_is_alone<"zero_optimization.cpu_offload_param">(values, "zero_optimization.offload_param");
}

std::string states_on_disk_have_a_folder(Values const& values) {
  return disk_has_a_folder<"zero_optimization.offload_optimizer.device",
                           "zero_optimization.offload_optimizer.nvme_path">(values);
}

std::string params_on_disk_have_a_folder(Values const& values) {
  return disk_has_a_folder<"zero_optimization.offload_param.device", "zero_optimization.offload_param.nvme_path">(
      values);
}

std::string parameters_on_disk_are_cut(Values const& values) {
  if (values.get<"zero_optimization.offload_param.device">() != "nvme") {
    return {};
  }
  if (auto const stage = values.get<"zero_optimization.stage">(); stage != 3) {
    return fmt::format(
        "\"nvme\", but zero_optimization.stage is {}, and only stage 3 shards parameters; allowed: \"none\" or "
        "\"cpu\", or stage 3",
        stage);
  }
  return {};
}

std::string host_updates_what_it_has(Values const& values) {
  bool const older_word =
      values.says<"zero_optimization.cpu_offload">() && values.get<"zero_optimization.cpu_offload">();
  auto const device = values.get<"zero_optimization.offload_optimizer.device">();
  return values.get<"zeroth.offload_update">() == "device" || device == "cpu" || (device == "none" && older_word)
             ? std::string{}
             : fmt::format(
                   "\"host\", but zero_optimization.offload_optimizer.device is \"{}\", and the host updates only "
                   "states in its memory; allowed: \"device\", or offload_optimizer.device \"cpu\"",
                   device);
}

std::string threads_update_on_the_host(Values const& values) {
  auto const threads = values.get<"zeroth.offload_update_threads">();
  return threads == 1 || values.get<"zeroth.offload_update">() == "host"
             ? std::string{}
             : fmt::format(R"({}, but zeroth.offload_update is "device"; allowed: 1, or offload_update "host")",
                           threads);
}

std::string requests_are_whole_blocks(Values const& values) {
  constexpr std::int64_t block = 4096;
  auto const bytes = values.get<"aio.block_size">();
  auto const below = bytes / block * block;
  return bytes == below
             ? std::string{}
             : fmt::format("{} is not a multiple of {}; nearest: {} or {}", bytes, block, below, below + block);
}

std::string disk_threads_are_said_once(Values const& values) {
  bool const both = values.says<"aio.intra_op_parallelism">() && values.says<"aio.thread_count">();
  auto const count = values.get<"aio.thread_count">();
  auto const parallelism = values.get<"aio.intra_op_parallelism">();
  return both && count != parallelism
             ? fmt::format("{}, but aio.intra_op_parallelism, its newer name, is {}; keep one", count, parallelism)
             : std::string{};
}

}  // namespace zeroth::config
