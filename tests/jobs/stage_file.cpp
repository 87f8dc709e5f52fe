// SPDX-License-Identifier: Apache-2.0
#include "jobs/stage_file.hpp"

#include <string>

#include "support/sanitized.hpp"

namespace zeroth::testing::jobs {
namespace {

using nlohmann::json;

int group_size(Choice const& choice) {
  int const ranks = std::stoi(std::string{choice["ranks"]});
  if (choice.is("size of groups", "one")) {
    return 1;
  }
  for (int size = 2; size < ranks && choice.is("size of groups", "some"); ++size) {
    if (ranks % size == 0) {
      return size;
    }
  }
  return ranks;
}

/// Keys of a tier that is not there would ask for nothing.
bool is_left_out(std::string const& option, Choice const& choice) {
  return option.starts_with("zero_optimization.offload_param.") && choice.is("parameters", "in memory");
}

json merged(Choice const& choice, bool reference) {
  json file = json::object();
  for (std::size_t option = 0; option < options().size(); ++option) {
    auto const& [name, role, values] = options()[option];
    auto const& changes = values[choice.values()[option]].changes;
    if (!changes.empty() && (role == Role::decides || !reference) && !is_left_out(name, choice)) {
      file.merge_patch(json::parse(changes));
    }
  }
  return file;
}

/// The reference says what the job leaves out, since the default follows the stage.
void add_reduction(json& file, Choice const& choice, bool reference) {
  if (!choice.is_plain("zeroth.reduce_gradients")) {
    file["zeroth"]["reduce_gradients"] = choice["zeroth.reduce_gradients"];
  } else if (reference && !choice.is_plain("gradient_accumulation_steps")) {
    file["zeroth"]["reduce_gradients"] = default_reduction(choice);
  }
}

void add_groups(json& file, Choice const& choice, bool reference) {
  auto const kind = std::string{choice["groups"]};
  int const size = group_size(choice);
  bool const two_levels = choice.is("zeroth.two_level_sums", "true");
  bool const is_off = kind == "zero_hpz_partition_size" && size == 1;  // the key's word for no groups
  if (two_levels) {
    file["zeroth"]["two_level_sums"] = true;
  }
  if (two_levels && (reference || is_off || kind == "group_size")) {
    file["zeroth"]["group_size"] = size;
  } else if (!reference && kind != "none") {
    file["zero_optimization"][kind] = size;
  }
}

void add_files(json& file, Choice const& choice, std::filesystem::path const& folder) {
  auto const path = folder.string();
  if (choice.is("states", "on a disk")) {
    file["zero_optimization"]["offload_optimizer"].update({{"device", "nvme"}, {"nvme_path", path}});
  }
  if (choice.is("parameters", "on a disk")) {
    file["zero_optimization"]["offload_param"].update({{"device", "nvme"}, {"nvme_path", path}});
  }
  for (auto const* const monitor : {"csv_monitor", "tensorboard"}) {
    if (file.contains(monitor)) {
      file[monitor]["output_path"] = path;
    }
  }
  if (file.contains("flops_profiler") && file["flops_profiler"].contains("output_file")) {
    file["flops_profiler"]["output_file"] = (folder / "flops.txt").string();
  }
}

json common(Choice const& choice, std::filesystem::path const& folder, bool reference) {
  auto file = merged(choice, reference);
  file["zeroth"]["timeout_ms"] = sanitized ? 120'000 : 40'000;
  file["zeroth"]["flight_recorder"] = folder.string();
  add_reduction(file, choice, reference);
  add_groups(file, choice, reference);
  return file;
}

}  // namespace

std::string_view default_reduction(Choice const& choice) {
  auto const stage = choice["zero_optimization.stage"];
  return stage == "0" || stage == "1" ? "last_micro_step" : "every_micro_step";
}

json stage_file(Choice const& choice, std::filesystem::path const& folder) {
  auto file = common(choice, folder, false);
  add_files(file, choice, folder);
  return file;
}

json reference_file(Choice const& choice, std::filesystem::path const& folder) {
  auto file = common(choice, folder, true);
  file["zero_optimization"]["stage"] = 0;
  return file;
}

}  // namespace zeroth::testing::jobs
