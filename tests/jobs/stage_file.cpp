// SPDX-License-Identifier: Apache-2.0
#include "jobs/stage_file.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "support/sanitized.hpp"
#include "zeroth/config/config.hpp"

namespace zeroth::testing::jobs {
namespace {

using nlohmann::json;

int ranks_of(Choice const& choice) { return std::stoi(std::string{choice["ranks"]}); }

/// Micro-steps of all ranks in a step.
int global_batch(Choice const& choice) {
  bool const one = choice.is_plain("gradient_accumulation_steps");
  return ranks_of(choice) * (one ? 1 : std::stoi(std::string{choice["gradient_accumulation_steps"]}));
}

int group_size(Choice const& choice) {
  int const ranks = ranks_of(choice);
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

/// Without the tier its keys would have no effect.
bool is_left_out(std::string const& option, Choice const& choice) {
  return option.starts_with("zero_optimization.offload_param.") && !choice.is("parameters", "on a disk");
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

/// The reference states keys that the job leaves out, since their defaults depend on the stage.
void add_reduction(json& file, Choice const& choice, bool reference) {
  if (!choice.is_plain("zeroth.reduce_gradients")) {
    file["zeroth"]["reduce_gradients"] = choice["zeroth.reduce_gradients"];
  } else if (reference && !choice.is_plain("gradient_accumulation_steps")) {
    file["zeroth"]["reduce_gradients"] = default_reduction(choice);
  }
}

/// The reference states this key too, since its default depends on the pipeline.
void add_ties(json& file, Choice const& choice, bool reference) {
  bool const is_default = ties_of(choice) == (stages_of(choice) > 1 ? "apart" : "together");
  if (reference || !is_default || !choice.is_plain("zeroth.tied_gradients")) {
    file["zeroth"]["tied_gradients"] = ties_of(choice);
  }
}

/// The last units at which `chunks` can begin.
std::vector<std::size_t> last_first_units(std::vector<DrawnUnit> const& units, std::size_t chunks) {
  std::vector<std::size_t> first;
  for (auto u = units.size() - 1; u > 0 && first.size() + 1 < chunks; --u) {
    if (units[u].input_per_sample > 0) {
      first.insert(first.begin(), u);
    }
  }
  first.insert(first.begin(), 0);
  return first;
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
  if (choice.is("states", "on the host")) {
    file["zero_optimization"]["offload_optimizer"]["device"] = "cpu";
  }
  if (choice.is("parameters", "on the host")) {
    file["zero_optimization"]["offload_param"]["device"] = "cpu";
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

void write_batch_sizes(json& file, Choice const& choice) {
  if (choice.is_plain("batch sizes")) {
    return;
  }
  int const micro = file["train_micro_batch_size_per_gpu"];
  int const accumulation = file.value("gradient_accumulation_steps", 1);
  file["gradient_accumulation_steps"] = accumulation;
  file["train_batch_size"] = micro * accumulation * ranks_of(choice);
  if (choice.is("batch sizes", "train batch and micro-batch") || choice.is("batch sizes", "train batch")) {
    file.erase("gradient_accumulation_steps");
  }
  if (choice.is("batch sizes", "train batch and accumulation") || choice.is("batch sizes", "train batch")) {
    file.erase("train_micro_batch_size_per_gpu");
  }
}

void rename(json& section, char const* word, char const* older) {
  if (section.contains(word)) {
    section[older] = section[word];
    section.erase(word);
  }
}

void write_older_words(json& file, Choice const& choice) {
  auto& zero = file["zero_optimization"];
  if (choice.is("states", "on the host")) {
    zero.erase("offload_optimizer");
    zero["cpu_offload"] = true;
  }
  if (choice.is("parameters", "on the host")) {
    zero.erase("offload_param");
    zero["cpu_offload_param"] = true;
  }
  rename(zero, "stage3_prefetch_bucket_size", "prefetch_bucket_size");
  rename(zero, "stage3_max_live_parameters", "max_live_parameters");
  rename(zero, "stage3_max_reuse_distance", "max_reuse_distance");
  rename(zero, "stage3_param_persistence_threshold", "param_persistence_threshold");
  rename(zero, "stage3_model_persistence_threshold", "model_persistence_threshold");
  rename(zero, "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save");
  rename(file, "bf16", "bfloat16");
  if (file.contains("aio")) {
    rename(file["aio"], "intra_op_parallelism", "thread_count");
  }
}

json common(Choice const& choice, std::filesystem::path const& folder, bool reference) {
  auto file = merged(choice, reference);
  file["zeroth"]["timeout_ms"] = sanitized ? 120'000 : 40'000;
  file["zeroth"]["flight_recorder"] = folder.string();
  add_reduction(file, choice, reference);
  add_ties(file, choice, reference);
  add_groups(file, choice, reference);
  return file;
}

}  // namespace

int other_ranks(Choice const& choice) {
  int const all = global_batch(choice);
  int ranks = std::min(all, 8);
  while (all % ranks != 0 || (ranks == ranks_of(choice) && ranks > 1)) {
    --ranks;
  }
  return choice.is("ranks of the reference", "one") ? 1 : ranks;
}

std::string_view default_reduction(Choice const& choice) {
  auto const stage = choice["zero_optimization.stage"];
  bool const once = (stage == "0" || stage == "1") && !choice.is("zeroth.same_bits_at_any_ranks", "true");
  return once ? "last_micro_step" : "every_micro_step";
}

std::string_view ties_of(Choice const& choice) {
  return !choice.is_plain("zeroth.tied_gradients") ? choice["zeroth.tied_gradients"]
         : stages_of(choice) > 1                   ? "apart"
                                                   : "together";
}

bool is_noted(json file) {
  file["zeroth"].erase("strict");
  auto const notes = Config::from_json(file.dump()).notes();
  return std::ranges::any_of(notes, [](auto const& note) { return note.path != "optimizer.type"; });
}

json stage_file(Choice const& choice, std::vector<DrawnUnit> const& units, std::filesystem::path const& folder) {
  auto file = common(choice, folder, false);
  if (choice.is("zeroth.pipeline.partition", "first_units")) {
    file["zeroth"]["pipeline"]["first_units"] = last_first_units(units, chunks_of(choice));
  }
  add_files(file, choice, folder);
  write_batch_sizes(file, choice);
  if (choice.is("words", "older")) {
    write_older_words(file, choice);
  }
  if (is_noted(file)) {
    file["zeroth"].erase("strict");
  }
  return file;
}

json reference_file(Choice const& choice, std::filesystem::path const& folder) {
  auto file = common(choice, folder, true);
  file["zero_optimization"]["stage"] = 0;
  if (!choice.is_plain("ranks of the reference")) {
    file["gradient_accumulation_steps"] = global_batch(choice) / other_ranks(choice);
  }
  return file;
}

}  // namespace zeroth::testing::jobs
